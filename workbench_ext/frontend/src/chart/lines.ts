/** Curves on a canvas: painting them, and hit tests. Law: pure but for the canvas it is given. */

import { IGoal } from '../server/api';
import { firstAtLeast, IPath } from '../curves/thin';
import { IBox } from './plot';
import { IScale } from './scale';

/**
 * The range of values to show: if a few outliers would squeeze all others, they are left out. `better`: which way is
 * better, of a goal; a search looks for its few best values, so they are never left out.
 */
export function extent(
  paths: Iterable<Pick<IPath, 'x' | 'y'>>,
  low: number,
  high: number,
  positive: boolean,
  whole: boolean,
  better?: IGoal['mode']
): [number, number] {
  const values: number[] = [];
  for (const { x, y } of paths) {
    for (let at = firstAtLeast(x, low); at < x.length && x[at]! <= high; at += 1) {
      const value = y[at]!;
      if (Number.isFinite(value) && (!positive || value > 0)) {
        values.push(value);
      }
    }
  }
  if (values.length === 0) {
    return [Infinity, -Infinity];
  }
  const sorted = Float64Array.from(values).sort();
  const [least, most] = [sorted[0]!, sorted[sorted.length - 1]!];
  if (whole || sorted.length < 20) {
    return [least, most];
  }
  const from = sorted[Math.floor(sorted.length * 0.02)]!;
  const to = sorted[Math.ceil(sorted.length * 0.98) - 1]!;
  const room = (to - from) * 1.5;
  return [better !== 'min' && least < from - room ? from : least, better !== 'max' && most > to + room ? to : most];
}

/** Add a curve to the paper's path. It runs past both sides of the picture, so that it does not end before them. */
export function trace(
  paper: CanvasRenderingContext2D,
  xs: readonly number[],
  ys: readonly number[],
  x: IScale,
  y: IScale
): void {
  const [low, high] = x.axis.range;
  const first = Math.max(firstAtLeast(xs, low) - 1, 0);
  const last = Math.min(firstAtLeast(xs, high) + 1, xs.length);
  let drawing = false;
  for (let at = first; at < last; at += 1) {
    const [left, top] = [x.of(xs[at]!), y.of(ys[at]!)];
    if (!Number.isFinite(top) || !Number.isFinite(left)) {
      drawing = false;
    } else if (drawing) {
      paper.lineTo(left, top);
    } else {
      paper.moveTo(left, top);
      drawing = true;
    }
  }
}

/** Points between two gaps, which no line reaches, in pixels: they are seen only if they are dots. */
export function alone(xs: readonly number[], ys: readonly number[], x: IScale, y: IScale): [number, number][] {
  const isGap = (at: number) => !Number.isFinite(x.of(xs[at]!)) || !Number.isFinite(y.of(ys[at]!));
  const found: [number, number][] = [];
  for (let at = 0; at < xs.length; at += 1) {
    if (!isGap(at) && (at === 0 || isGap(at - 1)) && (at === xs.length - 1 || isGap(at + 1))) {
      found.push([x.of(xs[at]!), y.of(ys[at]!)]);
    }
  }
  return found;
}

/** Where a curve ends: its last point with a place in the picture, in pixels. */
export function endOf(xs: readonly number[], ys: readonly number[], x: IScale, y: IScale): [number, number] | null {
  for (let at = xs.length - 1; at >= 0; at -= 1) {
    const [left, top] = [x.of(xs[at]!), y.of(ys[at]!)];
    if (Number.isFinite(left) && Number.isFinite(top)) {
      return [left, top];
    }
  }
  return null;
}

/** The distance in pixels from a place to a curve, squared. */
export function distance(
  xs: readonly number[],
  ys: readonly number[],
  x: IScale,
  y: IScale,
  left: number,
  top: number
): number {
  const middle = firstAtLeast(xs, x.at(left));
  let nearest = Infinity;
  // A thinned curve has two points in a pixel, so it is enough to check a few points around the place.
  for (let at = Math.max(middle - 4, 0); at < Math.min(middle + 4, xs.length); at += 1) {
    const [x1, y1] = [x.of(xs[at]!) - left, y.of(ys[at]!) - top];
    nearest = Math.min(nearest, x1 * x1 + y1 * y1);
    if (at > 0) {
      const [x0, y0] = [x.of(xs[at - 1]!) - left, y.of(ys[at - 1]!) - top];
      nearest = Math.min(nearest, toSegment(x0, y0, x1, y1));
    }
  }
  return Number.isNaN(nearest) ? Infinity : nearest;
}

/** The squared distance from the origin to a segment; infinite where an end has no place. */
function toSegment(x0: number, y0: number, x1: number, y1: number): number {
  const [wide, high] = [x1 - x0, y1 - y0];
  const length = wide * wide + high * high;
  const along = length > 0 ? Math.min(Math.max(-(x0 * wide + y0 * high) / length, 0), 1) : 0;
  const [h, v] = [x0 + along * wide, y0 + along * high];
  const found = h * h + v * v;
  return Number.isNaN(found) ? Infinity : found;
}

/** Whether a curve passes through a box of pixels. */
export function passes(xs: readonly number[], ys: readonly number[], x: IScale, y: IScale, box: IBox): boolean {
  const first = firstAtLeast(xs, x.at(box.left));
  const last = Math.min(firstAtLeast(xs, x.at(box.right)) + 1, xs.length);
  for (let at = first; at < last; at += 1) {
    const [x1, y1] = [x.of(xs[at]!), y.of(ys[at]!)];
    if (x1 >= box.left && x1 <= box.right && y1 >= box.top && y1 <= box.bottom) {
      return true;
    }
    if (at > 0 && crosses(x.of(xs[at - 1]!), y.of(ys[at - 1]!), x1, y1, box)) {
      return true;
    }
  }
  return false;
}

/** Whether a segment intersects a box (after Liang and Barsky). */
function crosses(x0: number, y0: number, x1: number, y1: number, box: IBox): boolean {
  let [enters, leaves] = [0, 1];
  const sides: readonly [number, number][] = [
    [x0 - x1, x0 - box.left],
    [x1 - x0, box.right - x0],
    [y0 - y1, y0 - box.top],
    [y1 - y0, box.bottom - y0]
  ];
  for (const [step, room] of sides) {
    if (Number.isNaN(step) || (step === 0 && room < 0)) {
      return false;
    }
    if (step < 0) {
      enters = Math.max(enters, room / step);
    } else if (step > 0) {
      leaves = Math.min(leaves, room / step);
    }
  }
  return enters <= leaves;
}
