/** What can lie on an axis: hyperparameters, the goal, and all that is measured. Law: pure. */

import { TranslationBundle } from '@jupyterlab/translation';

import { IGoal, ITrial } from '../server/api';
import { IDot, jitter } from '../chart/dots';
import { extent } from '../chart/lines';
import { around, IAxis, Range } from '../chart/scale';
import { shown } from '../numbers';
import { axisLabel, IMeasure, Measurements, withUnit } from './measures';
import { goalValue, IParameter, placeOf } from './parameters';

/** Half of a category's room over which its trials spread. */
const SPREAD = 0.3;

/** A quantity of a trial: `p:lr`, `goal`, `step`, or `m:` and the id of a measure. */
export interface IValue {
  readonly id: string;
  readonly label: string;
  readonly group: string;
  /** The bounds, or the names, of those that are no plain numbers. */
  readonly parameter: IParameter | null;
  readonly whole: boolean;
  /** Which way is better, if it is a value of the goal. */
  readonly better?: IGoal['mode'];
  /** Its place on the axis; NaN if the trial has none. */
  of(trial: ITrial): number;
  /** A place as text. */
  text(at: number): string;
}

export interface IKnown {
  readonly parameters: readonly IParameter[];
  readonly goal: IGoal | null;
  readonly measures: readonly IMeasure[];
  readonly measured: Measurements;
}

export function values({ parameters, goal, measures, measured }: IKnown, trans: TranslationBundle): IValue[] {
  const value = (id: string, label: string, group: string, of: IValue['of'], more: Partial<IValue> = {}): IValue => ({
    id,
    label,
    group,
    of,
    parameter: null,
    whole: false,
    text: shown,
    ...more
  });
  return [
    ...parameters.map(parameter =>
      value(`p:${parameter.name}`, parameter.name, trans.__('Hyperparameters'), trial => placeOf(parameter, trial), {
        parameter
      })
    ),
    ...(goal ? [value('goal', goal.metric, goal.metric, goalValue, { better: goal.mode })] : []),
    value('step', trans.__('step'), trans.__('Trial'), ({ step }) => step ?? NaN, { whole: true }),
    ...measures.map(measure => {
      const { id, group, whole, unit } = measure;
      const parameter = measure.named ? named(measure, measured) : null;
      const of = (trial: ITrial) => {
        const one = measured.get(trial.number);
        const found = one ? measure.of(one) : null;
        return typeof found === 'number' ? found : parameter ? place(parameter, found) : NaN;
      };
      const text = (at: number) =>
        parameter?.categories[Math.round(at)] ?? (unit ? withUnit(unit, at, trans) : shown(at));
      return value(`m:${id}`, axisLabel(measure), group, of, {
        parameter,
        whole,
        text,
        ...(measure.better && { better: measure.better })
      });
    })
  ];
}

/** The axis of a value that is found at some places. `zoomed`: the part that is shown. */
export function axisOf(value: IValue, found: readonly number[], log: boolean, zoomed?: Range): IAxis {
  const { parameter, label, whole, better } = value;
  if (parameter?.kind === 'category') {
    const { categories } = parameter;
    return { label, categories, range: zoomed ?? [-0.6, Math.max(categories.length, 1) - 0.4] };
  }
  if (zoomed) {
    return { label, log, whole, range: zoomed };
  }
  const [low, high] = parameter
    ? [Math.min(parameter.low, ...found), Math.max(parameter.high, ...found)]
    : extent([{ x: found.map((_, k) => k), y: found }], 0, found.length, log, false, better);
  return { label, log, whole, range: around(low, high, log && low > 0) };
}

/** Trials as dots in a picture of two values; those of a category are spread, so that many look like many. */
export function dotsAt(trials: Iterable<ITrial>, x: IValue, y: IValue): IDot[] {
  const [wide, high] = [x, y].map(({ parameter }) => (parameter?.kind === 'category' ? SPREAD : 0)) as [number, number];
  return [...trials].map(trial => ({
    trial: trial.number,
    x: x.of(trial) + wide * jitter(trial.number),
    y: y.of(trial) + high * jitter(trial.number * 7 + 3),
    failed: trial.state === 'failed'
  }));
}

/** Those that have a place on both axes. */
export function placed(dots: readonly IDot[], logX: boolean, logY: boolean): IDot[] {
  return dots.filter(({ x, y }) => Number.isFinite(x) && Number.isFinite(y) && (!logX || x > 0) && (!logY || y > 0));
}

function named(measure: IMeasure, measured: Measurements): IParameter {
  const names = new Set<string>();
  for (const one of measured.values()) {
    const name = measure.of(one);
    if (name !== null) {
      names.add(String(name));
    }
  }
  const categories = [...names].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
  return { name: measure.label, kind: 'category', log: false, low: 0, high: categories.length - 1, categories };
}

function place({ categories }: IParameter, name: string | null): number {
  const at = name === null ? -1 : categories.indexOf(name);
  return at < 0 ? NaN : at;
}
