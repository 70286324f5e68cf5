/** A ladder as plain data: what the server gives, what a fold makes, and what is drawn. Law: types, and what is read off. */

import { IGoal, Schemas } from '../server/api';

export type IEntry = Schemas['Entry'];
/**
 * What became of a trial at a rung. *training*: it has a leg, in a slot or queued for one. *waiting*: it has none now.
 * *lost*: its leg was, and it is tried again.
 */
export type Fate = IEntry['fate'];
export type IBracket = Schemas['Bracket'];
export type IRung = IBracket['rungs'][number];
/** Where a trial stands. */
export type IStanding = Schemas['Standing'];
export type ILadder = Schemas['Ladder'];
export type IHappened = ILadder['happened'][number];

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
              entries: rung.entries.map(entry => (queued(entry) ? { ...entry, fate: 'waiting' as const } : entry))
            }
          : rung
      )
    }))
  };
}
