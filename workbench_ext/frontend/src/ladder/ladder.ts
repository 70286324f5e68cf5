/** The ladder of rungs from the server's answers, in order of rank. Law: it merges and sorts; the search decides. */

import { IBracket, IEntry, ILadder, IRung, ITold, IToldEntry, IToldTrial } from './data';

type Told = IToldEntry & { readonly trial: number };

/** Everything received so far: first the whole ladder, then changed trials. */
export class Rungs {
  /** The journal's line up to which this was received; 0 in the beginning. */
  get n(): number {
    return this._told?.n ?? 0;
  }

  /** Merge an answer to the cursor {@link n}. Returns the ladder; rungs in which nothing changed are the same objects.
   * */
  take(told: ITold): ILadder {
    if (told.n < this.n) {
      this._trials.clear(); // another journal, received completely
    }
    const before = this._told;
    this._told = told;
    const changed = new Set<string>();
    for (const trial of told.trials) {
      for (const one of [this._trials.get(trial.trial), trial]) {
        one?.entries.forEach(({ step }) => changed.add(`${one.bracket} ${step}`));
      }
      this._trials.set(trial.trial, trial);
    }
    const fresh = this._entriesOf(changed);
    const brackets = told.brackets.map((bracket, at): IBracket => {
      const known = this._brackets[at]?.rungs ?? [];
      return {
        bracket: bracket.bracket,
        turn: bracket.turn,
        rungs: bracket.rungs.map((rung, on): IRung => {
          const last = known[on]?.step === rung.step ? known[on] : undefined;
          const isSame = last && same(rung, before?.brackets[at]?.rungs[on]);
          const key = `${at} ${rung.step}`;
          if (isSame && !changed.has(key)) {
            return last;
          }
          const entries = changed.has(key) ? ranked(fresh.get(key) ?? [], told) : (last?.entries ?? []);
          return { ...rung, entries };
        })
      };
    });
    this._brackets = brackets;
    const { n, goal, scheduler, best, members } = told;
    return { n, goal, scheduler, best, ...(members && { members }), brackets };
  }

  /** The entries of these rungs, from one pass over all trials. */
  private _entriesOf(rungs: ReadonlySet<string>): Map<string, Told[]> {
    const found = new Map<string, Told[]>();
    for (const { trial, bracket, entries } of rungs.size > 0 ? this._trials.values() : []) {
      for (const entry of entries) {
        const key = `${bracket} ${entry.step}`;
        if (rungs.has(key)) {
          const known = found.get(key) ?? [];
          known.push({ ...entry, trial });
          found.set(key, known);
        }
      }
    }
    return found;
  }

  private _brackets: readonly IBracket[] = [];
  private _told: ITold | null = null;
  private readonly _trials = new Map<number, IToldTrial>();
}

type Marks = { readonly places: number | null; readonly going: number; readonly cut: number | null };

function same(one: Marks, other: Marks | undefined): boolean {
  return other !== undefined && one.places === other.places && one.going === other.going && one.cut === other.cut;
}

/** Entries by rank, then those without a value by trial. Ties go to the older trial, as in the search, which compares
 * means if configurations have several trials. */
function ranked(entries: readonly Told[], { goal, members }: ITold): IEntry[] {
  const sign = goal.mode === 'max' ? -1 : 1;
  const key = ({ ranks, value, mean }: Told) => {
    const compared = (members ?? 1) > 1 ? mean : ranks ? value : null;
    return typeof compared === 'number' ? sign * compared : Infinity;
  };
  const byTrial = (a: Told, b: Told) => a.trial - b.trial;
  const told = entries
    .filter(({ value }) => value !== null)
    .sort((a, b) => (key(a) === key(b) ? byTrial(a, b) : key(a) - key(b)));
  const others = entries.filter(({ value }) => value === null).sort(byTrial);
  return [...told.map((entry, at) => shown(entry, at + 1)), ...others.map(entry => shown(entry, null))];
}

function shown({ trial, value, mean, ranks, fate, reason, from }: Told, rank: number | null): IEntry {
  return { trial, value, ...(mean !== undefined && { mean }), ranks, rank, fate, reason, from };
}
