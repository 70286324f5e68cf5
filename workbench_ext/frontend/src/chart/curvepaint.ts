/** How curves of a metric look: smoothed, coloured, the best before all others. Law: pure but for the canvas it is given. */

import { IGoal, ITrial } from '../server/api';
import { smoothed, spacing } from '../curves/smooth';
import { firstAtLeast, IPath } from '../curves/thin';
import { alone, distance, endOf, extent, trace } from './lines';
import { IView } from './plot';
import { around, IScale } from './scale';
import { IFact, IHit } from './tip';

/** A curve as it is painted. */
export interface ILine {
  readonly trial: number;
  readonly x: readonly number[];
  readonly y: readonly number[];
  /** The values themselves, where `y` is smoothed. */
  readonly raw: readonly number[] | null;
  readonly colour: string;
}

/** Maximum distance in pixels at which the pointer selects a line. */
const NEAR = 24;

export function smoothLines(
  paths: ReadonlyMap<number, IPath> | null,
  weight: number
): ReadonlyMap<number, Omit<ILine, 'colour'>> {
  const lines = new Map<number, Omit<ILine, 'colour'>>();
  for (const { trial, x, y, points } of paths?.values() ?? []) {
    const soft = weight > 0 ? smoothed(x, y, weight, spacing(x, points)) : y;
    lines.set(trial, { trial, x, y: soft, raw: weight > 0 ? y : null });
  }
  return lines;
}

export function fullView(
  lines: ReadonlyMap<number, Omit<ILine, 'colour'>>,
  logX: boolean,
  logY: boolean,
  whole: boolean,
  better?: IGoal['mode'],
  margin = 0.015
): IView {
  let [low, high] = [Infinity, -Infinity];
  for (const { x } of lines.values()) {
    const first = logX ? x.find(value => value > 0) : x[0];
    low = Math.min(low, first ?? Infinity);
    high = Math.max(high, x[x.length - 1] ?? -Infinity);
  }
  const drawn = [...lines.values()].map(({ x, y, raw }) => ({ x, y: raw ?? y }));
  const [least, most] = extent(drawn, low, high, logY, whole, better);
  return { x: around(low, high, logX, margin), y: around(least, most, logY) };
}

export function paintLines(
  paper: CanvasRenderingContext2D,
  x: IScale,
  y: IScale,
  lines: ReadonlyMap<number, ILine>,
  selected: ReadonlySet<number>,
  best: number | null,
  page: string,
  text: string
): void {
  const crowd = lines.size;
  const alpha = crowd > 300 ? 0.55 : crowd > 60 ? 0.75 : 0.9;
  const choosing = selected.size > 0;
  const stroke = (line: ILine, ys: readonly number[], width: number, opacity: number, colour = line.colour) => {
    paper.globalAlpha = opacity;
    paper.lineWidth = width;
    paper.strokeStyle = colour;
    paper.beginPath();
    trace(paper, line.x, ys, x, y);
    paper.stroke();
  };
  const dot = (line: ILine, at: readonly [number, number], radius: number, opacity: number) => {
    paper.globalAlpha = opacity;
    paper.fillStyle = line.colour;
    paper.beginPath();
    paper.arc(at[0], at[1], radius, 0, 2 * Math.PI);
    paper.fill();
  };
  const end = (line: ILine, radius: number, opacity: number) => {
    const at = endOf(line.x, line.y, x, y);
    if (at) {
      dot(line, at, radius, opacity);
    }
    for (const one of alone(line.x, line.y, x, y)) {
      dot(line, one, Math.min(radius, 2.2), opacity);
    }
  };
  paper.lineJoin = 'round';
  for (const line of lines.values()) {
    const chosen = !choosing || selected.has(line.trial);
    if (line.raw) {
      stroke(line, line.raw, 1, chosen ? 0.16 : 0.04);
    }
    if (!chosen) {
      stroke(line, line.y, 1, crowd > 300 ? 0.06 : 0.13);
      end(line, 1.5, 0.15);
    } else if (!choosing) {
      stroke(line, line.y, crowd > 300 ? 1 : 1.4, alpha);
      end(line, crowd > 300 ? 1.6 : 2.2, alpha);
    }
  }
  for (const trial of selected) {
    const line = lines.get(trial);
    if (line) {
      stroke(line, line.y, selected.size > 100 ? 1.2 : 2, 0.95);
      end(line, 2.5, 1);
    }
  }
  const first = best === null ? undefined : lines.get(best);
  if (first) {
    stroke(first, first.y, 6, 0.7, page);
    stroke(first, first.y, 4, 0.9, text);
    stroke(first, first.y, 2.4, 1);
    end({ ...first, colour: page }, 6.5, 1);
    end({ ...first, colour: text }, 5.2, 1);
    end(first, 4.2, 1);
  }
  paper.globalAlpha = 1;
}

export function pointOut(
  paper: CanvasRenderingContext2D,
  x: IScale,
  y: IScale,
  line: ILine | undefined,
  page: string
): void {
  if (!line) {
    return;
  }
  paper.lineJoin = 'round';
  for (const [width, colour] of [
    [6, page],
    [3, line.colour]
  ] as const) {
    paper.lineWidth = width;
    paper.strokeStyle = paper.fillStyle = colour;
    paper.beginPath();
    trace(paper, line.x, line.y, x, y);
    paper.stroke();
    const at = endOf(line.x, line.y, x, y);
    for (const [left, top] of [...alone(line.x, line.y, x, y), ...(at ? [at] : [])]) {
      paper.beginPath();
      paper.arc(left, top, width + 1, 0, 2 * Math.PI);
      paper.fill();
    }
  }
}

/** The trial whose line is nearest to a place; selected trials are preferred. */
export function nearest(
  lines: ReadonlyMap<number, ILine>,
  selected: ReadonlySet<number>,
  left: number,
  top: number,
  x: IScale,
  y: IScale
): number | null {
  let found: number | null = null;
  let least = NEAR * NEAR;
  for (const line of lines.values()) {
    const away = distance(line.x, line.y, x, y, left, top) * (selected.has(line.trial) ? 0.25 : 1);
    // Of equal ones, the later, which is on top.
    if (away <= least) {
      least = away;
      found = line.trial;
    }
  }
  return found;
}

/** The index of the value of rising `xs` that is nearest to `value`; there is one. */
export function nearestTo(xs: readonly number[], value: number): number {
  const at = Math.min(firstAtLeast(xs, value), xs.length - 1);
  return at > 0 && value - xs[at - 1]! < xs[at]! - value ? at - 1 : at;
}

export function hitOf(
  line: ILine | undefined,
  trial: ITrial | undefined,
  x: IScale,
  y: IScale,
  left: number | undefined,
  factsOf: (line: ILine, at: number, trial: ITrial | undefined) => IFact[]
): IHit | null {
  if (!line || line.x.length === 0) {
    return null;
  }
  const at = left === undefined ? line.x.length - 1 : nearestTo(line.x, x.at(left));
  const top = y.of(line.y[at]!);
  return {
    trial: line.trial,
    left: x.of(line.x[at]!),
    top: Number.isFinite(top) ? top : 0,
    facts: factsOf(line, at, trial)
  };
}
