import { readFileSync } from 'fs';
import { join } from 'path';
import { runInNewContext } from 'vm';

import { categorical, share, spread, stateColour, viridis, visible } from './colours';

test('viridis goes from violet to yellow, clamps, and is grey without a number', () => {
  expect(viridis(0)).toBe('rgb(68, 1, 84)');
  expect(viridis(1)).toBe('rgb(253, 231, 37)');
  expect(viridis(7)).toBe(viridis(1));
  expect(viridis(-Infinity)).toBe(viridis(0));
  expect(viridis(NaN)).toBe('#9a9a9a');
  expect(viridis(0.5)).toBe('rgb(33, 144, 141)');
});

test('one trial that went astray does not make the others look alike', () => {
  const losses = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1e9];
  expect(spread(losses, 'min')).toEqual([1.0, 0.1]);
  expect(share(0.1, spread(losses, 'min')!)).toBe(1);
  expect(share(1e9, spread(losses, 'min')!)).toBe(0);
});

test('the best is 1, whichever way the goal goes', () => {
  for (const mode of ['max', 'min'] as const) {
    const values = [3, 1, 2];
    const best = mode === 'max' ? 3 : 1;
    expect(share(best, spread(values, mode)!)).toBe(1);
  }
  expect(spread([NaN, Infinity], 'max')).toBeNull();
  expect(share(5, [5, 5])).toBe(1);
  expect(share(NaN, [0, 1])).toBeNaN();
});

/** The functions of a live view in a cell, which is no module of this one. */
function live(): {
  colour(rank: number, dark: boolean): string;
  scale(board: object): { rank(value: number): number };
} {
  const page = readFileSync(join(__dirname, '../../../../src/workbench/live/page/words.js'), 'utf8');
  const compare = (one: number, other: number) => one - other;
  return runInNewContext(`${page}; ({ colour, scale })`, { compare }) as ReturnType<typeof live>;
}

test('the best stands out against the page, and has the same colour in the cell', () => {
  const { colour } = live();
  for (const dark of [false, true]) {
    for (const part of [0, 0.1, 0.25, 0.5, 0.77, 1]) {
      const inCell = colour(part, dark).match(/\d+/g)!.map(Number);
      const here = viridis(visible(part, dark)).match(/\d+/g)!.map(Number);
      here.forEach((value, k) => expect(Math.abs(value - inCell[k]!)).toBeLessThanOrEqual(1));
    }
  }
  expect(visible(1, false)).toBeLessThan(0.1); // violet on white
  expect(visible(1, true)).toBeGreaterThan(0.9); // yellow on black
});

test('a value has the same place between worst and best in the cell', () => {
  const values = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1e9];
  for (const mode of ['max', 'min'] as const) {
    const trials = new Map(values.map((value, k) => [k, { value, state: k % 2 ? 'stopped' : 'completed' }]));
    const { rank } = live().scale({ trials, header: { goal: { mode } } });
    for (const value of [...values, 0.45]) {
      expect(rank(value)).toBe(share(value, spread(values, mode)!));
    }
  }
});

test('categories repeat, on white and on black, and every state has its colour', () => {
  for (const dark of [false, true]) {
    const eight = [0, 1, 2, 3, 4, 5, 6, 7].map(index => categorical(index, dark));
    expect(new Set(eight).size).toBe(8);
    expect(categorical(8, dark)).toBe(eight[0]);
  }
  expect(stateColour('failed')).not.toBe(stateColour('completed'));
});
