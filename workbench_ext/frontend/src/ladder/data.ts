/** A ladder as plain data: the server's answers, the merged ladder, and the drawn one. Law: types and simple accessors.
 * */

import { Answer, Schemas } from '../server/api';

/** What `/ladder?after=n` answers. */
export type ILadderAnswer = Answer<'ladder'>;
/** Everything except trials without changes after the cursor. */
export type ITold = Schemas['Ladder'];
export type IToldTrial = ITold['trials'][number];
/** A trial at a rung, in the server's form. */
export type IToldEntry = Schemas['RungEntry'];
/** What happened after the cursor. */
export type ISince = Schemas['Since'];
/**
 * The outcome of a trial at a rung. *training*: it has a leg, in a slot or queued for one. *waiting*: it has none now.
 * *lost*: its leg was lost, and the trial is retried.
 */
export type Fate = IToldEntry['fate'];

type IToldBracket = ITold['brackets'][number];

export type IEntry = Omit<IToldEntry, 'step'> & { readonly trial: number; readonly rank: number | null };
export type IRung = IToldBracket['rungs'][number] & {
  /** By rank, then unranked ones by trial. */
  readonly entries: readonly IEntry[];
};
export type IBracket = Omit<IToldBracket, 'rungs'> & { readonly rungs: readonly IRung[] };
/** A ladder with the entries of each rung. */
export type ILadder = Omit<ITold, 'brackets' | 'trials'> & { readonly brackets: readonly IBracket[] };

/**
 * The ladder with only those trials shown as training whose leg has a slot: a leg may wait behind another one, which
 * the journal does not record. The same object if all of them train.
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
