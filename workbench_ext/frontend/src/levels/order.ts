/** Trials in the order in which they started or ended, and the best value so far. Law: pure. */

import { IGoal, ITrial } from '../server/api';

export type By = 'started' | 'ended';

export interface IStanding {
  readonly trial: number;
  /** From 1. */
  readonly place: number;
  readonly value: number;
  /** The best value up to here. */
  readonly best: number;
}

/** The trials that have a value. Those without a time come last, by number. */
export function standings(
  trials: Iterable<ITrial>,
  values: ReadonlyMap<number, number>,
  by: By,
  mode: IGoal['mode']
): IStanding[] {
  const known = [...trials].filter(({ number }) => Number.isFinite(values.get(number)));
  // Times are UTC in ISO 8601, which sort as text.
  known.sort((a, b) => {
    const [first, second] = [a[by] || LAST, b[by] || LAST];
    return first === second ? a.number - b.number : first < second ? -1 : 1;
  });
  let best = NaN;
  return known.map(({ number }, at) => {
    const value = values.get(number)!;
    const isBetter = mode === 'max' ? value > best : value < best;
    best = Number.isNaN(best) || isBetter ? value : best;
    return { trial: number, place: at + 1, value, best };
  });
}

/** After every time. */
const LAST = '~';
