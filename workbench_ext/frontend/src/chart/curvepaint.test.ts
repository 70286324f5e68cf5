import { fullView, nearestTo, smoothLines } from './curvepaint';

test('the nearest value of a line is found, also beyond its ends', () => {
  expect([-5, 0.9, 1.1, 3, 3.1, 99].map(at => nearestTo([0, 2, 4], at))).toEqual([0, 0, 1, 2, 2, 2]);
  expect(nearestTo([7], 3)).toBe(0);
});

test('a smoothed line keeps its raw values, and the view has room for both', () => {
  const paths = new Map([[3, { trial: 3, x: [0, 10], y: [0, 8], points: 2 }]]);
  const line = smoothLines(paths, 0.5).get(3)!;
  expect(line.raw).toEqual([0, 8]);
  expect(line.y[1]).toBeLessThan(8);
  const { x, y } = fullView(smoothLines(paths, 0.5), false, false, true, undefined, 0.1);
  expect(x).toEqual([-1, 11]);
  expect(y[1]).toBeGreaterThan(8);
});
