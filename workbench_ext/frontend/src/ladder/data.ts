/** A ladder as plain data: what the server gives, what a fold makes, and what is drawn. Law: types, and what is read off. */

import { Answer, Schemas } from '../server/api';

/** What `/ladder?after=n` answers. */
export type ILadderAnswer = Answer<'ladder'>;
/** Everything but the trials that did not change behind the cursor. */
export type ITold = Schemas['Ladder'];
export type IToldTrial = ITold['trials'][number];
/** A trial at a rung, as the server tells it. */
export type IToldEntry = Schemas['RungEntry'];
/** What happened behind the cursor. */
export type ISince = Schemas['Since'];
/**
 * What became of a trial at a rung. *training*: it has a leg, in a slot or queued for one. *waiting*: it has none now.
 * *lost*: its leg was, and it is tried again.
 */
export type Fate = IToldEntry['fate'];

type IToldBracket = ITold['brackets'][number];

export type IEntry = Omit<IToldEntry, 'step' | 'ranks'> & { readonly trial: number; readonly rank: number | null };
export type IRung = IToldBracket['rungs'][number] & {
  /** By rank, then those that have none by trial. */
  readonly entries: readonly IEntry[];
};
export type IBracket = Omit<IToldBracket, 'rungs'> & { readonly rungs: readonly IRung[] };
/** A ladder whose rungs hold their entries. */
export type ILadder = Omit<ITold, 'brackets' | 'trials'> & { readonly brackets: readonly IBracket[] };

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
