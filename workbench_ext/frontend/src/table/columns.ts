/** The columns of the table: names, values, widths. Law: pure. */

import { TranslationBundle } from '@jupyterlab/translation';

import { IGoal, ITrial, Value } from '../server/api';
import { Cell } from './filter';
import { lostNames } from '../experiment/outcome';
import { categoryLabel, goalValue, IParameter } from '../parameters/parameters';
import { numeric } from '../curves/thin';
import { stateWord } from '../words';

export interface IColumn {
  /** Its name in filters and in the kept state. */
  readonly id: string;
  readonly label: string;
  readonly number: boolean;
  readonly width: number;
  /** Whether it is shown by default. */
  readonly usual: boolean;
  readonly of: (trial: ITrial) => Cell;
}

/** Trial, state, goal, step, the hyperparameters, and further facts about a trial.
 *
 * several: configurations have several trials, whose means are compared. */
export function columns(
  known: readonly IParameter[],
  goal: IGoal | null,
  trans: TranslationBundle,
  several = false
): IColumn[] {
  const metric = goal?.metric ?? 'value';
  const own: IColumn[] = known.map(parameter => ({
    id: parameter.name,
    label: parameter.name,
    number: numbers(parameter),
    width: 104,
    usual: true,
    of: ({ configuration }) => cell(configuration?.[parameter.name])
  }));
  // A hyperparameter may have the name of one of our columns: then ours is renamed, so that names are unique.
  const taken = new Set(own.map(({ id }) => id));
  const named = (id: string) => (taken.has(id) ? `trial.${id}` : id);
  const column = (
    id: string,
    label: string,
    width: number,
    usual: boolean,
    of: (trial: ITrial) => Cell,
    number = true
  ): IColumn => ({ id: named(id), label, number, width, usual, of });
  return [
    column('trial', trans.__('trial'), 84, true, ({ label }) => label, false),
    column('state', trans.__('state'), 112, true, ({ state }) => stateWord(state, trans), false),
    column(metric, metric, 104, true, trial => finite(goalValue(trial))),
    ...(several
      ? [
          column('mean', trans.__('mean %1', metric), 104, true, ({ mean }) => mean),
          column('deviation', trans.__('deviation'), 96, true, ({ deviation }) => deviation)
        ]
      : []),
    column('best', trans.__('best %1', metric), 104, false, ({ best }) => said(best)),
    column('step', trans.__('step'), 64, true, ({ step }) => step),
    ...own,
    column('bracket', trans.__('bracket'), 76, false, ({ bracket }) => bracket),
    column('level', trans.__('level'), 64, false, ({ level }) => level),
    column('restarts', trans.__('restarts'), 78, false, ({ restarts }) => restarts),
    column('inexact', trans.__('resumed inexactly'), 150, false, trial => lostNames(trial), false),
    column('started', trans.__('started'), 150, false, ({ started }) => started, false),
    column('ended', trans.__('ended'), 150, false, ({ ended }) => ended, false),
    column('reason', trans.__('reason'), 320, true, ({ error, reason }) => error?.split('\n')[0] ?? reason, false)
  ];
}

function numbers({ kind, categories }: IParameter): boolean {
  return kind === 'number' || categories.every(label => label !== '' && !Number.isNaN(Number(label)));
}

function finite(value: number): Cell {
  return Number.isNaN(value) ? null : value;
}

function said(value: Value | null): Cell {
  return finite(numeric(value));
}

function cell(value: unknown): Cell {
  return value === undefined || typeof value === 'number' ? value : categoryLabel(value);
}

/** The order of two cells in a column; rows without a value come last in both directions. */
export function compare(a: Cell, b: Cell): number {
  if (typeof a === 'number' && typeof b === 'number') {
    return a - b;
  }
  return String(a).localeCompare(String(b), undefined, { numeric: true });
}
