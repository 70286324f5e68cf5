import { firstAtLeast, headed, numeric, path, splice, thin } from './thin';

const curve = (y: number[]) => ({ trial: 0, x: y.map((_, k) => k), y, points: y.length });

test('words are numbers again', () => {
  expect(numeric('inf')).toBe(Infinity);
  expect(numeric('-inf')).toBe(-Infinity);
  expect(numeric('nan')).toBeNaN();
  expect(numeric(null)).toBeNaN();
  expect(path({ trial: 3, x: [1], y: ['nan'], thinned: false, points: 1 }).y[0]).toBeNaN();
});

test('a short curve stays what it is', () => {
  const short = curve([1, 2, 3]);
  expect(thin(short, 10)).toBe(short);
});

test('a thinned curve keeps both ends, and its lowest and highest where they are', () => {
  const y = Array.from({ length: 10_000 }, (_, k) => Math.sin(k / 300));
  y[4321] = 9;
  y[8765] = -9;
  const thinned = thin(curve(y), 200);
  expect(thinned.x.length).toBeLessThanOrEqual(402);
  expect(thinned.points).toBe(10_000);
  expect([thinned.x[0], thinned.x.at(-1)]).toEqual([0, 9_999]);
  expect(thinned.y[thinned.x.indexOf(4321)]).toBe(9);
  expect(thinned.y[thinned.x.indexOf(8765)]).toBe(-9);
  expect(thinned.x).toEqual([...thinned.x].sort((a, b) => a - b));
});

test('a long gap is still a gap', () => {
  const y = Array.from({ length: 5_000 }, (_, k) => (k > 1_000 && k < 3_000 ? NaN : k));
  const thinned = thin(curve(y), 100);
  const inside = thinned.y.filter((_, k) => thinned.x[k]! > 1_060 && thinned.x[k]! < 2_940);
  expect(inside.length).toBeGreaterThan(0);
  expect(inside.every(Number.isNaN)).toBe(true);
});

test('points that all stand at one place are thinned too', () => {
  const y = Array.from({ length: 1_000 }, (_, k) => k);
  expect(thin({ trial: 0, x: y.map(() => 5), y, points: 1_000 }, 10).x.length).toBeLessThan(10);
});

test('a curve grows at its end, and a step that was done again replaces what it said', () => {
  const growing = curve([1, 2, 3]);
  const end = { trial: 0, x: [1, 2, 3], y: [5, 6, 7], points: 3 };
  expect(splice(growing, end)).toEqual({ trial: 0, x: [0, 1, 2, 3], y: [1, 5, 6, 7], points: 4 });
});

test('an end that says nothing new leaves the curve as it is', () => {
  const still = curve([1, NaN, 3]);
  expect(splice(still, { trial: 0, x: [1, 2], y: [NaN, 3], points: 2 })).toBe(still);
  expect(splice(still, { trial: 0, x: [], y: [], points: 0 })).toBe(still);
  expect(splice(still, { trial: 0, x: [2], y: [4], points: 1 }).y).toEqual([1, NaN, 4]);
});

test('a finer beginning takes the place of a coarse one', () => {
  const coarse = { trial: 0, x: [0, 50, 100], y: [1, 2, 3], points: 101 };
  const fine = { trial: 0, x: [0, 1, 2, 3, 60], y: [1, 7, 8, 9, 5], points: 61 };
  expect(headed(coarse, fine, 50)).toEqual({ trial: 0, x: [0, 1, 2, 3, 50, 100], y: [1, 7, 8, 9, 2, 3], points: 101 });
});

test('a place is found by halves', () => {
  expect([-1, 0, 3, 4, 9].map(x => firstAtLeast([0, 2, 4], x))).toEqual([0, 0, 2, 2, 3]);
  expect(firstAtLeast([], 1)).toBe(0);
});
