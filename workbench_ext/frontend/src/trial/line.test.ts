/** @jest-environment node */

import { lineOf } from './line';

const same = (value: number) => value;

test('a line goes through all points, and is interrupted where there is no value', () => {
  expect(lineOf([0, 1, 2], [5, 6, 7], same, same)).toBe('M0.0,5.0L1.0,6.0L2.0,7.0');
  expect(lineOf([0, 1, 50, 100, 101], [5, 6, NaN, 7, 8], same, same)).toBe('M0.0,5.0L1.0,6.0M100.0,7.0L101.0,8.0');
  expect(lineOf([0, 1, 2, 3], [5, NaN, 6, NaN], same, same)).toBe('M0.0,5.0h0M2.0,6.0h0');
  expect(lineOf([0, 1], [Infinity, 1], same, same)).toBe('M1.0,1.0h0');
});
