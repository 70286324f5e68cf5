/** The values that trials had at one level of the search, which alone are compared. Law: pure; the search decides what
 * is compared. */

import { TranslationBundle } from '@jupyterlab/translation';

import { ILadder } from '../ladder/data';
import { shown } from '../numbers';
import { IValue } from '../parameters/values';
import { IGoal } from '../server/api';

/** A step at which the search compares trials, and the values of the goal there, by trial. */
export interface ILevel {
  readonly step: number;
  readonly values: ReadonlyMap<number, number>;
}

/** The levels of all brackets, lowest first. A value that is not ranked is left out. */
export function levelsOf({ brackets }: ILadder): ILevel[] {
  const found = new Map<number, Map<number, number>>();
  for (const { rungs } of brackets) {
    for (const { step, entries } of rungs) {
      const values = found.get(step) ?? found.set(step, new Map<number, number>()).get(step)!;
      for (const { trial, value, ranks } of entries) {
        if (ranks && typeof value === 'number') {
          values.set(trial, value);
        }
      }
    }
  }
  return [...found].sort(([a], [b]) => a - b).map(([step, values]) => ({ step, values }));
}

/** The level that the user chose, or the highest one that any trial reached; null if there is none yet. */
export function chosenLevel(levels: readonly ILevel[], step: number | null): ILevel | null {
  const reached = levels.filter(({ values }) => values.size > 0);
  return levels.find(level => level.step === step) ?? reached[reached.length - 1] ?? null;
}

/** The goal's value at a level, as a quantity of trials. */
export function goalAt({ step, values }: ILevel, { metric, mode }: IGoal, trans: TranslationBundle): IValue {
  return {
    id: 'level',
    label: trans.__('%1 at step %2', metric, step),
    group: metric,
    parameter: null,
    whole: false,
    better: mode,
    of: ({ number }) => values.get(number) ?? NaN,
    text: shown
  };
}
