import { alone, distance, endOf, extent, passes, trace } from './lines';
import { scale } from './scale';

const x = scale({ label: 'step', range: [0, 10] }, 0, 100, 5);
const y = scale({ label: 'loss', range: [0, 10] }, 100, 0, 5);
const steep = { x: [0, 1, 10], y: [0, 10, 10] };

test('a few outliers do not squeeze all others, unless the whole is wanted', () => {
  const even = Array.from({ length: 100 }, (_, k) => k);
  const paths = [{ x: even, y: even.map(k => (k === 50 ? 1e9 : k / 100)) }];
  expect(extent(paths, 0, 99, false, false)[1]).toBeLessThan(1);
  expect(extent(paths, 0, 99, false, true)[1]).toBe(1e9);
  expect(extent(paths, 10, 20, false, false)).toEqual([0.1, 0.2]);
  expect(extent(paths, 0, 99, true, true)[0]).toBe(0.01);
  expect(extent([], 0, 1, false, false)).toEqual([Infinity, -Infinity]);
});

test('the few best values that a search found are never left out', () => {
  const x = Array.from({ length: 100 }, (_, k) => k);
  const paths = [{ x, y: x.map(k => (k === 50 ? 0.9 : k === 60 ? -50 : 0.1 + k / 10_000)) }];
  const [low, high] = extent(paths, 0, 99, false, false, 'max');
  expect([low > 0, high]).toEqual([true, 0.9]);
  expect(extent(paths, 0, 99, false, false, 'min')[0]).toBe(-50);
  expect(extent(paths, 0, 99, false, false, 'min')[1]).toBeLessThan(0.2);
});

test('a curve is drawn with gaps where it has no value', () => {
  const said: string[] = [];
  const paper = {
    moveTo: (a: number, b: number) => said.push(`M${a},${b}`),
    lineTo: (a: number, b: number) => said.push(`L${a},${b}`)
  } as unknown as CanvasRenderingContext2D;
  trace(paper, [0, 1, 2, 3, 4], [0, 10, NaN, 10, Infinity], x, y);
  expect(said).toEqual(['M0,100', 'L10,0', 'M30,0']);
});

test('points between two gaps are found, since no line reaches them', () => {
  expect(alone([0, 1, 2, 3, 4], [0, NaN, 10, Infinity, 10], x, y)).toEqual([
    [0, 100],
    [20, 0],
    [40, 0]
  ]);
  expect(alone([0, 1, 2], [0, 1, NaN], x, y)).toEqual([]);
  expect(alone([3], [10], x, y)).toEqual([[30, 0]]);
});

test('only what is in the picture is drawn, and one point beyond either side', () => {
  const said: number[] = [];
  const paper = { moveTo: (a: number) => said.push(a), lineTo: (a: number) => said.push(a) };
  const part = scale({ label: 'step', range: [4, 6] }, 0, 100, 5);
  const steps = Array.from({ length: 11 }, (_, k) => k);
  trace(paper as unknown as CanvasRenderingContext2D, steps, steps, part, y);
  expect(said.map(left => Math.round(part.at(left)))).toEqual([3, 4, 5, 6]);
});

test('a curve ends at its last value', () => {
  expect(endOf([0, 5, 6], [1, 5, NaN], x, y)).toEqual([50, 50]);
  expect(endOf([0], [NaN], x, y)).toBeNull();
});

test('the distance is to the line and not only to its points', () => {
  expect(distance(steep.x, steep.y, x, y, 50, 5)).toBeCloseTo(25);
  expect(distance(steep.x, steep.y, x, y, 5, 50)).toBeLessThan(1);
  expect(distance([3], [3], x, y, 30, 60)).toBeCloseTo(100);
  expect(distance([3], [NaN], x, y, 30, 60)).toBe(Infinity);
});

test('a box catches what passes through it, also between two points', () => {
  const box = { left: 40, right: 45, top: 0, bottom: 10 };
  expect(passes(steep.x, steep.y, x, y, box)).toBe(true);
  expect(passes(steep.x, steep.y, x, y, { ...box, top: 20, bottom: 60 })).toBe(false);
  expect(passes([4.2], [9.5], x, y, box)).toBe(true);
  expect(passes([0, 1], [0, NaN], x, y, { left: 0, right: 100, top: 0, bottom: 90 })).toBe(false);
});
