/** Curves as points on a screen: thinned, and with newer points. Law: pure; x rises, and a gap is NaN in y. */

import { ICurve, Value } from '../server/api';

/** A curve to draw. */
export interface IPath {
  readonly trial: number;
  readonly x: readonly number[];
  readonly y: readonly number[];
  /** The real number of points; fewer may be here. */
  readonly points: number;
}

/** A value as a number. */
export function numeric(value: Value | null | undefined): number {
  if (typeof value === 'number') {
    return value;
  }
  return value === 'inf' ? Infinity : value === '-inf' ? -Infinity : NaN;
}

export function path({ trial, x, y, points }: ICurve): IPath {
  return { trial, x: [...x], y: y.map(numeric), points };
}

/**
 * A curve with its end replaced: from the start of `end`, `end` counts. A repeated step has its last value. Returns the
 * curve itself if nothing changes.
 */
export function splice(curve: IPath, end: IPath): IPath {
  const place = end.x.length === 0 ? curve.x.length : firstAtLeast(curve.x, end.x[0]!);
  const left = curve.x.length - place;
  const same =
    left === end.x.length && end.x.every((x, k) => x === curve.x[place + k] && Object.is(end.y[k], curve.y[place + k]));
  if (same) {
    return curve;
  }
  return {
    trial: curve.trial,
    x: [...curve.x.slice(0, place), ...end.x],
    y: [...curve.y.slice(0, place), ...end.y],
    points: Math.max(curve.points - left, 0) + end.points
  };
}

/** A curve with its beginning replaced: up to `until`, `head` counts. */
export function headed(curve: IPath, head: IPath, until: number): IPath {
  const [from, to] = [firstAtLeast(curve.x, until), firstAtLeast(head.x, until)];
  return {
    ...curve,
    x: [...head.x.slice(0, to), ...curve.x.slice(from)],
    y: [...head.y.slice(0, to), ...curve.y.slice(from)]
  };
}

/** The index of the first that is `x` or more; the length if there is none. */
export function firstAtLeast(sorted: readonly number[], x: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! < x) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/**
 * At most about `2 * columns + 2` points that draw the same picture: each column's lowest and highest, and both ends.
 * Returns the path itself where it has no more than that.
 */
export function thin(path: IPath, columns: number): IPath {
  const { x, y, trial, points } = path;
  if (x.length <= 2 * columns + 2) {
    return path;
  }
  const kept: number[] = [0];
  const first = x[0]!;
  const width = (x[x.length - 1]! - first) / columns || 1;
  for (let at = 1; at < x.length - 1;) {
    const column = Math.floor((x[at]! - first) / width);
    let lowest = -1;
    let highest = -1;
    let gap = -1;
    for (; at < x.length - 1 && Math.floor((x[at]! - first) / width) === column; at += 1) {
      const value = y[at]!;
      if (!Number.isFinite(value)) {
        gap = at;
        continue;
      }
      if (lowest < 0 || value < y[lowest]!) {
        lowest = at;
      }
      if (highest < 0 || value >= y[highest]!) {
        highest = at;
      }
    }
    if (lowest < 0) {
      kept.push(gap);
    } else {
      kept.push(Math.min(lowest, highest));
      if (lowest !== highest) {
        kept.push(Math.max(lowest, highest));
      }
    }
  }
  kept.push(x.length - 1);
  return { trial, points, x: kept.map(at => x[at]!), y: kept.map(at => y[at]!) };
}
