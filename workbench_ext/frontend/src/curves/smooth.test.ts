import { smoothed, spacing } from './smooth';

test('without weight the values are themselves', () => {
  expect(smoothed([0, 1], [3, 5], 0)).toEqual([3, 5]);
});

test('the beginning is not pulled towards zero', () => {
  const even = smoothed([0, 1, 2], [4, 4, 4], 0.9);
  even.forEach(value => expect(value).toBeCloseTo(4, 12));
});

test('it is the mean that its definition says', () => {
  const [, second, third] = smoothed([1, 2, 3], [1, 2, 4], 0.5);
  expect(second).toBeCloseTo((0.25 * 1 + 0.5 * 2) / 0.75, 12);
  expect(third).toBeCloseTo((0.125 * 1 + 0.25 * 2 + 0.5 * 4) / 0.875, 12);
});

test('a value that is no number neither counts nor moves', () => {
  const [, gap, after] = smoothed([0, 1, 2], [1, NaN, 1], 0.6);
  expect(gap).toBeNaN();
  expect(after).toBeCloseTo(1, 12);
});

test('a thinned line is smoothed about as the whole one is', () => {
  const x = Array.from({ length: 1_001 }, (_, k) => k);
  const y = x.map(k => Math.sin(k / 200));
  const whole = smoothed(x, y, 0.95);
  const few = x.filter(k => k % 5 === 0);
  const thinned = smoothed(
    few,
    few.map(k => y[k]!),
    0.95,
    spacing(few, 1_001)
  );
  expect(Math.abs(thinned.at(-1)! - whole.at(-1)!)).toBeLessThan(0.02);
});

test('spacing is the distance before thinning', () => {
  expect(spacing([0, 50, 100], 101)).toBe(1);
  expect(spacing([3], 1)).toBe(1);
  expect(spacing([], 0)).toBe(1);
});
