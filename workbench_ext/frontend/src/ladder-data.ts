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
  /** Its first trial; null where the plan is not known. */
  readonly first: number | null;
  readonly rungs: readonly IRung[];
}

/** Where a trial stands: the last step that was told, the end of its leg, and the step of its last entry. */
export interface IStanding {
  /** The place of its bracket in the list. */
  readonly bracket: number;
  readonly step: number;
  readonly until: number | null;
  readonly at: number | null;
  /** It has a leg. Facts that the leg told last may come after its end. */
  readonly live: boolean;
  /** Its leg was told to stop. It can still come to its last step; nothing before counts any more. */
  readonly leaving: boolean;
  /** The highest level at which its value was finite, and that value; null where it never was. */
  readonly level: number;
  readonly value: number | null;
  /** Its newest value is nan or infinite. */
  readonly diverged: boolean;
}

export interface IHappened {
  readonly n: number;
  readonly at: string;
  readonly kind: string;
  readonly trial?: number;
  readonly value?: number;
  readonly state?: string;
}

export interface ILadder {
  /** The journal's line that was folded last. */
  readonly n: number;
  readonly goal: IGoal;
  readonly rule: { readonly kind: string; readonly mode: string | null; readonly eta: number | null };
  readonly brackets: readonly IBracket[];
  readonly trials: Readonly<Record<string, IStanding>>;
  readonly told: number | null;
  readonly best: { readonly trial: number; readonly step: number; readonly value: number } | null;
  readonly happened: readonly IHappened[];
}

/** What was known before anything ran. */
export interface IPlan {
  readonly goal: IGoal;
  readonly rule: ILadder['rule'];
  readonly brackets: readonly {
    readonly bracket: number;
    readonly turn: number;
    readonly first: number | null;
    readonly rungs: readonly { readonly step: number; readonly places: number | null }[];
  }[];
}

export interface ISince {
  readonly retries: number;
  readonly failures: number;
  /** The best value as it was (null before there was one) and as it is; null where it is as it was. */
  readonly best: { readonly first: number | null; readonly last: number } | null;
  /** When (UTC) and in which state. */
  readonly ended: { readonly at: string; readonly state: string } | null;
}

/** What happened behind the journal's line `after`, for a person who was away. */
export function since(ladder: ILadder, after: number): ISince {
  const fresh = ladder.happened.filter(({ n }) => n > after);
  const count = (kind: string) => fresh.filter(one => one.kind === kind).length;
  const bests = ladder.happened.filter(({ kind }) => kind === 'best');
  const first = bests.filter(({ n }) => n <= after).pop();
  const last = fresh.filter(({ kind }) => kind === 'best').pop();
  // What was made longer has not ended.
  const turn = fresh.filter(({ kind }) => kind === 'ended' || kind === 'extended').pop();
  const ended = turn?.kind === 'ended' ? turn : undefined;
  return {
    retries: count('retry'),
    failures: count('failure'),
    best: last ? { first: first?.value ?? null, last: last.value! } : null,
    ended: ended ? { at: ended.at, state: ended.state! } : null
  };
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
