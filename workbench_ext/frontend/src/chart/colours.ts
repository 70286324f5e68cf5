/** Colours for what is drawn. Law: pure; a theme's own colours are given, never looked up here. */

import { IGoal, State } from '../server/api';

/** Viridis at equal distances; between them it is straight to within one part in 255. */
const VIRIDIS: readonly (readonly [number, number, number])[] = [
  [68, 1, 84],
  [72, 26, 108],
  [71, 47, 125],
  [65, 68, 135],
  [57, 86, 140],
  [49, 104, 142],
  [42, 120, 142],
  [35, 136, 142],
  [31, 152, 139],
  [34, 168, 132],
  [53, 183, 121],
  [84, 197, 104],
  [122, 209, 81],
  [165, 219, 54],
  [210, 226, 27],
  [253, 231, 37]
];

/**
 * Colours for categories: Paul Tol's "bright" and "light" schemes, for white and for black backgrounds, which are also
 * distinguishable with red-green colour blindness.
 */
const CATEGORIES: Readonly<Record<'light' | 'dark', readonly string[]>> = {
  light: ['#4477aa', '#ee6677', '#228833', '#ccbb44', '#66ccee', '#aa3377', '#ee8866', '#999933'],
  dark: ['#77aadd', '#ee8866', '#44bb99', '#eedd88', '#99ddff', '#ffaabb', '#bbcc33', '#dddddd']
};

const STATES: Readonly<Record<State, string>> = {
  running: '#2f7ed8',
  'setting up': '#7aa7d6',
  completed: '#2e9e5b',
  stopped: '#8a8f98',
  failed: '#d64545',
  unreadable: '#d64545',
  paused: '#b8860b',
  stopping: '#c2703d',
  waiting: '#a9b4c2'
};

/** Viridis: 0 is dark violet, 1 is yellow. Values outside are clamped, and a missing number is grey. */
export function viridis(share: number): string {
  if (Number.isNaN(share)) {
    return '#9a9a9a';
  }
  const place = Math.min(Math.max(share, 0), 1) * (VIRIDIS.length - 1);
  const below = VIRIDIS[Math.floor(place)]!;
  const above = VIRIDIS[Math.ceil(place)]!;
  const part = place - Math.floor(place);
  const [red, green, blue] = below.map((value, k) => Math.round(value + (above[k]! - value) * part));
  return `rgb(${red}, ${green}, ${blue})`;
}

/**
 * Where a share (0 to 1) lies on viridis. The better end is the one that stands out against the page: violet on white,
 * where yellow disappears, and yellow on black. A live view has the same colours (live/page/words.js).
 */
export function visible(share: number, dark: boolean): number {
  return dark ? 0.22 + 0.74 * share : 0.86 - 0.82 * share;
}

export function categorical(index: number, dark: boolean): string {
  const colours = CATEGORIES[dark ? 'dark' : 'light'];
  return colours[index % colours.length]!;
}

export function stateColour(state: State): string {
  return STATES[state] ?? STATES.waiting;
}

/**
 * The values between which colours spread, worst and best. The worst tenth shares one end, so that a single bad trial
 * does not make all others look alike. Null where there is no number.
 */
export function spread(values: readonly number[], mode: IGoal['mode']): [number, number] | null {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  if (sorted.length === 0) {
    return null;
  }
  const tenth = Math.floor((sorted.length - 1) / 10);
  return mode === 'max'
    ? [sorted[tenth]!, sorted[sorted.length - 1]!]
    : [sorted[sorted.length - 1 - tenth]!, sorted[0]!];
}

/** Where a value is between worst and best, 0 to 1: 1 is the best, whichever way the goal goes. */
export function share(value: number, [worst, best]: readonly [number, number]): number {
  if (Number.isNaN(value)) {
    return NaN;
  }
  return worst === best ? 1 : Math.min(Math.max((value - worst) / (best - worst), 0), 1);
}
