/** Trials as lines across one axis for each of their values. Law: pure but for the canvas it is given. */

import { ITrial } from '../server/api';
import { goalValue, IParameter, placeOf } from '../parameters/parameters';
import { axisOf, IValue } from '../parameters/values';
import { jitter } from './dots';
import { extent } from './lines';
import { around, IScale, scale } from './scale';

/** One axis. */
export interface IDimension {
  readonly id: string;
  readonly label: string;
  readonly scale: IScale;
  /** Pixels from the top where a trial crosses the axis. */
  of(trial: ITrial): number;
  /** Whether it has no value here: it was inactive, or nothing was reported. */
  lacks(trial: ITrial): boolean;
}

/** Pixels below an axis where trials cross that have no value on it. */
const LACK = 20;
/** Half of the part of a category's share of the axis over which its trials spread, so that many look like many. */
const SPREAD = 0.28;

/** The id of the goal's axis; no hyperparameter has this name. */
export const GOAL = ' goal';

/** An axis for each hyperparameter and each of the `more` values, and the goal's last, with its best end at the top. */
export function dimensions(
  known: readonly IParameter[],
  goal: { readonly metric: string; readonly mode: 'max' | 'min' } | null,
  trials: Iterable<ITrial>,
  height: number,
  more: readonly IValue[] = []
): IDimension[] {
  const count = Math.max(height / 84, 2);
  const all = [...trials];
  const found = known.map(parameter => {
    const { name, kind, log, low, high, categories } = parameter;
    const range: [number, number] =
      kind === 'category'
        ? [-0.5, Math.max(categories.length, 1) - 0.5]
        : low < high
          ? [low, high]
          : [...around(low, high, log)];
    const axis = { label: name, range, log, ...(kind === 'category' ? { categories } : {}) };
    const made = scale(axis, height, 0, count);
    const spread = kind === 'category' ? SPREAD : 0;
    return dimension(name, name, made, trial => placeOf(parameter, trial), height, spread);
  });
  for (const value of more) {
    const axis = axisOf(value, all.map(value.of).filter(Number.isFinite), false);
    const spread = axis.categories ? SPREAD : 0;
    found.push(dimension(value.id, value.label, scale(axis, height, 0, count), value.of, height, spread));
  }
  if (goal) {
    const values = all.map(goalValue).filter(Number.isFinite);
    const [low, high] = extent([{ x: values.map((_, k) => k), y: values }], 0, values.length, false, false, goal.mode);
    const axis = { label: goal.metric, range: around(low, high, false, 0.02) };
    const made = goal.mode === 'max' ? scale(axis, height, 0, count) : scale(axis, 0, height, count);
    found.push(dimension(GOAL, goal.metric, made, goalValue, height, 0));
  }
  return found;
}

function dimension(
  id: string,
  label: string,
  made: IScale,
  value: (trial: ITrial) => number,
  height: number,
  spread: number
): IDimension {
  return {
    id,
    label,
    scale: made,
    lacks: trial => Number.isNaN(value(trial)),
    of: trial => {
      const place = value(trial);
      if (Number.isNaN(place)) {
        return height + LACK;
      }
      const top = made.of(spread ? place + spread * jitter(trial.number) : place);
      return Math.min(Math.max(Number.isNaN(top) ? height : top, 0), height);
    }
  };
}

/** Draw a trial's line through the axes, which stand at `lefts`. */
export function across(paper: CanvasRenderingContext2D, tops: readonly number[], lefts: readonly number[]): void {
  paper.moveTo(lefts[0]!, tops[0]!);
  for (let at = 1; at < tops.length; at += 1) {
    const middle = (lefts[at - 1]! + lefts[at]!) / 2;
    paper.bezierCurveTo(middle, tops[at - 1]!, middle, tops[at]!, lefts[at]!, tops[at]!);
  }
  if (tops.length === 1) {
    paper.lineTo(lefts[0]! + 12, tops[0]!);
  }
}

/** Between which axes a place is, and what their shares of a line's height are there. */
export function between(
  left: number,
  lefts: readonly number[]
): { readonly at: number; readonly before: number; readonly after: number } | null {
  const at = lefts.findIndex((from, k) => k + 1 < lefts.length && left >= from && left <= lefts[k + 1]!);
  if (at < 0) {
    return null;
  }
  const share = (left - lefts[at]!) / (lefts[at + 1]! - lefts[at]!);
  // Of all lines here x is the same function of their parameter: 1.5 t (1 - t) + t³, which rises.
  let [low, high] = [0, 1];
  for (let turn = 0; turn < 24; turn += 1) {
    const t = (low + high) / 2;
    if (1.5 * t * (1 - t) + t ** 3 < share) {
      low = t;
    } else {
      high = t;
    }
  }
  const t = (low + high) / 2;
  const after = t * t * (3 - 2 * t);
  return { at, before: 1 - after, after };
}

/** A part of an axis, in pixels from its top, that was brushed. */
export type Brushes = Readonly<Record<string, readonly [number, number]>>;

/** The trials that pass all brushes. */
export function brushed(trials: Iterable<ITrial>, axes: readonly IDimension[], brushes: Brushes): number[] {
  const brushing = axes.filter(({ id }) => id in brushes);
  return [...trials]
    .filter(trial =>
      brushing.every(axis => {
        const [top, bottom] = brushes[axis.id]!;
        const place = axis.of(trial);
        return place >= top && place <= bottom;
      })
    )
    .map(({ number }) => number);
}
