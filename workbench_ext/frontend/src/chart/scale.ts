/** From values to pixels and back. Law: pure; a scale never invents a value that its kind does not have. */

import { scaleLinear, scaleLog } from 'd3-scale';

import { shown, tickLabels } from '../numbers';

export type Range = readonly [number, number];

export interface ITick {
  readonly at: number;
  readonly label: string;
}

/** What an axis shows. Categories are at 0, 1, 2, …, in order. */
export interface IAxis {
  readonly label: string;
  readonly range: Range;
  readonly log?: boolean;
  readonly categories?: readonly string[];
  /** Whether only whole numbers have a meaning, as of steps: no tick is between two. */
  readonly whole?: boolean;
}

export interface IScale {
  /** Pixels. NaN where the axis cannot show the value. */
  of(value: number): number;
  /** The value at a pixel. */
  at(pixel: number): number;
  readonly ticks: readonly ITick[];
  readonly axis: IAxis;
}

/** A scale from pixel `start` to pixel `end`, with about `count` ticks. */
export function scale(axis: IAxis, start: number, end: number, count: number): IScale {
  const { range, categories } = axis;
  if (axis.log && range[0] > 0) {
    const log = scaleLog()
      .domain([...range])
      .range([start, end]);
    const format = log.tickFormat(Math.max(count, 1));
    const inOne = Math.log10(range[1] / range[0]) < 1.2;
    const ticks = marked(axis, log.ticks(count)).map(at => ({
      at,
      label: inOne ? shown(at) : format(at) && shown(at)
    }));
    const slope = (end - start) / Math.log(range[1] / range[0]);
    const zero = start - slope * Math.log(range[0]);
    return { axis, of: v => (v > 0 ? zero + slope * Math.log(v) : NaN), at: p => log.invert(p), ticks };
  }
  const linear = scaleLinear()
    .domain([...range])
    .range([start, end]);
  const ticks = categories
    ? thinnedLabels(categories, range, Math.max(count * 2, 2))
    : labelled(marked(axis, linear.ticks(count)));
  // Plain arithmetic: a picture asks for a million pixels.
  const slope = (end - start) / (range[1] - range[0]);
  const zero = start - slope * range[0];
  return { axis, of: v => zero + slope * v, at: p => linear.invert(p), ticks };
}

function marked({ whole }: IAxis, ticks: readonly number[]): readonly number[] {
  return whole ? ticks.filter(Number.isInteger) : ticks;
}

function labelled(ticks: readonly number[]): ITick[] {
  const labels = tickLabels(ticks);
  return ticks.map((at, k) => ({ at, label: labels[k]! }));
}

function thinnedLabels(categories: readonly string[], range: Range, most: number): ITick[] {
  const step = Math.ceil(categories.length / most);
  return categories
    .map((label, at) => ({ at, label }))
    .filter(({ at }) => at % step === 0 && at >= range[0] && at <= range[1]);
}

/** A range around values, with a margin so that nothing lies on the edge. */
export function around(low: number, high: number, log: boolean, margin = 0.04): Range {
  if (!(low <= high)) {
    return log ? [0.1, 1] : [0, 1];
  }
  if (log) {
    const [from, to] = [Math.log10(low), Math.log10(high)];
    const more = (to - from || 1) * margin;
    return [10 ** (from - more), 10 ** (to + more)];
  }
  const more = (high - low || Math.abs(high) || 1) * margin;
  return [low - more, high + more];
}

/** A part of a range: 0 is its beginning and 1 its end, as the axis counts. Parts outside are allowed. */
export function part(axis: IAxis, from: number, to: number): Range {
  const [low, high] = axis.range;
  if (axis.log && low > 0) {
    const power = Math.log(high / low);
    return [low * Math.exp(power * from), low * Math.exp(power * to)];
  }
  return [low + (high - low) * from, low + (high - low) * to];
}
