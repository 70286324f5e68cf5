/** The columns of the table: names, values, widths. Law: pure. */

import { TranslationBundle } from '@jupyterlab/translation';

import { IGoal, ITrial, Value } from '../server/api';
import { Cell } from './filter';
import { lostNames } from '../experiment/outcome';
import { aligned, IFormat } from '../numbers';
import { goalId, IMeasure, Measurements, parameterId, withUnit } from '../parameters/measures';
import { categoryLabel, goalValue, IParameter, labelOf } from '../parameters/parameters';
import { numeric } from '../curves/thin';
import { stateWord } from '../words';

export interface IColumn {
  /** Its name in filters and in the kept state. */
  readonly id: string;
  /** Which of a trial's own facts it shows; none of a hyperparameter or a measure, whatever that is called. */
  readonly own?: string;
  readonly label: string;
  readonly number: boolean;
  readonly width: number;
  /** Under what the chooser lists it. */
  readonly group: string;
  /** Whether it is shown by default. */
  readonly usual: boolean;
  readonly of: (trial: ITrial) => Cell;
  /** All digits of a trial's value, where JavaScript's number has others. */
  readonly written?: (trial: ITrial) => string | undefined;
  /** How its numbers are told, where they have a unit. */
  readonly text?: (value: number) => string;
}

/** Trial, state, goal, step, the hyperparameters, further facts about a trial, and what was measured of it.
 *
 * several: configurations have several trials, whose means are compared. */
export function columns(
  known: readonly IParameter[],
  goal: IGoal | null,
  trans: TranslationBundle,
  several = false,
  measures: readonly IMeasure[] = [],
  measured: Measurements = new Map()
): IColumn[] {
  const metric = goal?.metric ?? 'value';
  const own: IColumn[] = known.map(parameter => ({
    id: parameterId(parameter, goal),
    label: parameter.name,
    number: numbers(parameter),
    width: 104,
    group: trans.__('Hyperparameters'),
    usual: true,
    of: ({ configuration }) => cell(configuration?.[parameter.name], parameter),
    written: trial => (Object.hasOwn(trial.written ?? {}, parameter.name) ? labelOf(parameter.name, trial) : undefined)
  }));
  // A hyperparameter or the goal may have the name of one of our columns: then ours is renamed, so that names are unique.
  const taken = new Set([...own.map(({ id }) => id), goalId(goal)]);
  const named = (id: string) => (taken.has(id) ? `trial.${id}` : id);
  const column = (
    id: string,
    label: string,
    width: number,
    usual: boolean,
    of: (trial: ITrial) => Cell,
    number = true
  ): IColumn => ({ id: named(id), own: id, label, number, width, group: trans.__('Trial'), usual, of });
  return [
    column('trial', trans.__('trial'), 84, true, ({ label }) => label, false),
    column('state', trans.__('state'), 112, true, ({ state }) => stateWord(state, trans), false),
    { ...column('goal', metric, 104, true, trial => reported(trial)), id: goalId(goal) },
    ...(several
      ? [
          column('mean', trans.__('mean %1', metric), 104, true, ({ mean }) => mean),
          column('deviation', trans.__('deviation'), 96, true, ({ deviation }) => deviation)
        ]
      : []),
    column('best', trans.__('best %1', metric), 104, false, ({ best }) => said(best)),
    column('step', trans.__('step'), 64, true, ({ step }) => step),
    ...own,
    // The trial's own row tells its best value, without asking for what was measured.
    ...measures.filter(({ id }) => id !== named('best')).map(measure => measuredColumn(measure, measured, trans)),
    column('bracket', trans.__('bracket'), 76, false, ({ bracket }) => bracket),
    column('level', trans.__('level'), 64, false, ({ level }) => level),
    column('restarts', trans.__('restarts'), 78, false, ({ restarts }) => restarts),
    column('inexact', trans.__('resumed inexactly'), 150, false, trial => lostNames(trial), false),
    column('started', trans.__('started'), 150, false, ({ started }) => started, false),
    column('ended', trans.__('ended'), 150, false, ({ ended }) => ended, false),
    column('reason', trans.__('reason'), 320, true, ({ error, reason }) => error?.split('\n')[0] ?? reason, false)
  ];
}

function measuredColumn(measure: IMeasure, measured: Measurements, trans: TranslationBundle): IColumn {
  const { id, label, group, unit, named } = measure;
  const of = ({ number }: ITrial) => {
    const one = measured.get(number);
    return one && measure.of(one);
  };
  const width = Math.min(Math.max(104, 30 + 8 * label.length), 240);
  const text = unit ? { text: (value: number) => withUnit(unit, value, trans) } : {};
  return { id, label, group, number: !named, width, usual: false, of, ...text };
}

function numbers({ kind, categories }: IParameter): boolean {
  return kind === 'number' || categories.every(label => label !== '' && !Number.isNaN(Number(label)));
}

/** The goal's value; NaN if that is what was reported, so that a filter finds it. */
function reported(trial: ITrial): Cell {
  return (trial.value ?? trial.best ?? null) === null ? null : goalValue(trial);
}

function finite(value: number): Cell {
  return Number.isNaN(value) ? null : value;
}

function said(value: Value | null): Cell {
  return finite(numeric(value));
}

/** A hyperparameter's value. A conditional one has none where its condition does not hold. */
function cell(value: unknown, { categories }: IParameter): Cell {
  const isUnset = value === undefined || (value === null && !categories.includes('null'));
  return isUnset ? null : typeof value === 'number' ? value : categoryLabel(value);
}

/** How a column's numbers are shown, so that their decimal points are below each other. */
export function format(column: IColumn, trials: readonly ITrial[]): IFormat {
  if (column.text) {
    return { key: 'unit', of: column.text };
  }
  const values = trials.map(column.of);
  return aligned(values.filter(value => typeof value === 'number'));
}

/** The order of two cells in a column; rows without a value come last in both directions. */
export function compare(a: Cell, b: Cell): number {
  if (typeof a === 'number' && typeof b === 'number') {
    return a - b;
  }
  return String(a).localeCompare(String(b), undefined, { numeric: true });
}
