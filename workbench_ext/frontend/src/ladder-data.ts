/** A ladder as plain data: what the server gives, what a fold makes, and what is drawn. Law: types, and what is read off. */

import { IGoal, Value } from './api';

/**
 * What became of a trial at a rung. *training*: it has a leg, in a slot or queued for one. *waiting*: it has none now.
 * *lost*: its leg was, and it is tried again.
 */
export type Fate = 'training' | 'waiting' | 'on' | 'stopped' | 'failed' | 'completed' | 'lost';

export interface IEntry {
  readonly trial: number;
  /** Null until it was told there. */
  readonly value: Value | null;
  readonly rank: number | null;
  readonly fate: Fate;
  readonly reason: string;
  /** The step it started from. */
  readonly from: number;
}

export interface IRung {
  readonly step: number;
  /** How many places are planned; null where nobody can know. */
  readonly places: number | null;
  /** The value of the last rank that goes on; null where all do, or nobody yet. */
  readonly cut: number | null;
  /** How many go on. */
  readonly going: number;
  /** By rank, then those that have none by trial. */
  readonly entries: readonly IEntry[];
}

export interface IBracket {
  readonly bracket: number;
  /** Hyperband's round, from 0. */
  readonly turn: number;
  readonly rungs: readonly IRung[];
}

export interface ILadder {
  /** The journal's line that was read last. */
  readonly n: number;
  readonly goal: IGoal;
  /** The scheduler's kind. */
  readonly scheduler: string;
  readonly brackets: readonly IBracket[];
  readonly best: { readonly trial: number; readonly step: number; readonly value: number } | null;
}

/** A trial at a rung, as the server tells it. */
export interface IToldEntry {
  readonly step: number;
  readonly from: number;
  readonly value: Value | null;
  /** Whether its value is compared with others'; one that is not comes last. */
  readonly ranks: boolean;
  readonly fate: Fate;
  readonly reason: string;
}

export interface IToldTrial {
  readonly trial: number;
  /** The place of its bracket in the list. */
  readonly bracket: number;
  readonly entries: readonly IToldEntry[];
}

/** An answer of the server: everything but the trials that did not change behind the cursor. */
export interface ITold extends Omit<ILadder, 'brackets'> {
  readonly brackets: readonly (Omit<IBracket, 'rungs'> & {
    readonly rungs: readonly Omit<IRung, 'entries'>[];
  })[];
  readonly trials: readonly IToldTrial[];
}

/** What `/ladder?after=n` answers. */
export interface ILadderAnswer {
  readonly ladder: ITold;
  /** What happened behind the cursor. */
  readonly since: ISince;
}

export interface ISince {
  readonly retries: number;
  readonly failures: number;
  /** The best value as it was (null before there was one) and as it is; null where it is as it was. */
  readonly best: { readonly first: number | null; readonly last: number } | null;
  /** When (UTC) and in which state. */
  readonly ended: { readonly at: string; readonly state: string } | null;
}

/**
 * The ladder with those only called training that are: a leg may wait behind another one, which its journal does not
 * say. The same object where all of them train.
 */
export function honest(ladder: ILadder, trains: (trial: number) => boolean): ILadder {
  const queued = ({ fate, trial }: IEntry) => fate === 'training' && !trains(trial);
  if (!ladder.brackets.some(({ rungs }) => rungs.some(({ entries }) => entries.some(queued)))) {
    return ladder;
  }
  return {
    ...ladder,
    brackets: ladder.brackets.map(bracket => ({
      ...bracket,
      rungs: bracket.rungs.map(rung =>
        rung.entries.some(queued)
          ? {
              ...rung,
              entries: rung.entries.map(entry =>
                queued(entry) ? { ...entry, fate: 'waiting' as const } : entry
              )
            }
          : rung
      )
    }))
  };
}
