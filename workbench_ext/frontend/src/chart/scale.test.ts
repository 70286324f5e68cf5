import { around, part, scale } from './scale';

test('a scale and its inverse undo each other', () => {
  for (const log of [false, true]) {
    const made = scale({ label: 'lr', range: [0.001, 10], log }, 0, 400, 5);
    expect(made.of(0.001)).toBeCloseTo(0);
    expect(made.of(10)).toBeCloseTo(400);
    expect(made.at(made.of(0.3))).toBeCloseTo(0.3, 10);
  }
});

test('what a log axis cannot show has no place', () => {
  const made = scale({ label: 'lr', range: [0.1, 10], log: true }, 0, 100, 5);
  expect(made.of(0)).toBeNaN();
  expect(made.of(-1)).toBeNaN();
  const unable = scale({ label: 'x', range: [-1, 10], log: true }, 0, 100, 5);
  expect(unable.of(-1)).toBeCloseTo(0);
});

test('a log axis names powers of ten, and more inside of one', () => {
  const labels = scale({ label: 'lr', range: [1e-4, 1], log: true }, 0, 300, 5)
    .ticks.map(tick => tick.label)
    .filter(Boolean);
  expect(labels).toEqual(['1e−4', '0.001', '0.01', '0.1', '1']);
  const inside = scale({ label: 'lr', range: [0.2, 0.9], log: true }, 0, 300, 5).ticks;
  expect(inside.filter(tick => tick.label).length).toBeGreaterThan(3);
});

test('categories are ticks, fewer where they are too many', () => {
  const few = scale({ label: 'opt', range: [-0.5, 1.5], categories: ['sgd', 'adam'] }, 0, 100, 4);
  expect(few.ticks).toEqual([
    { at: 0, label: 'sgd' },
    { at: 1, label: 'adam' }
  ]);
  const many = Array.from({ length: 100 }, (_, k) => `c${k}`);
  expect(scale({ label: 'c', range: [-0.5, 99.5], categories: many }, 0, 100, 5).ticks.length).toBeLessThan(12);
});

test('an axis of steps has no tick between two steps', () => {
  const at = (range: readonly [number, number], log = false) =>
    scale({ label: 'step', range, log, whole: true }, 0, 400, 8).ticks.map(tick => tick.label);
  expect(at([0.9, 3.1])).toEqual(['1', '2', '3']);
  expect(at([7.2, 7.6])).toEqual([]);
  expect(at([0, 27])).toEqual(['0', '5', '10', '15', '20', '25']);
  expect(
    at([0.5, 20], true)
      .filter(Boolean)
      .every(label => Number.isInteger(Number(label)))
  ).toBe(true);
});

test('a range has a margin, also around one value and around nothing', () => {
  expect(around(0, 1, false, 0.1)).toEqual([-0.1, 1.1]);
  const [low, high] = around(5, 5, false);
  expect(low).toBeLessThan(5);
  expect(high).toBeGreaterThan(5);
  expect(around(Infinity, -Infinity, false)).toEqual([0, 1]);
  const [least, most] = around(0.01, 1, true, 0.5);
  expect(least).toBeCloseTo(0.001);
  expect(most).toBeCloseTo(10);
});

test('a part of a log range is a part as the axis shows it', () => {
  const [low, high] = part({ label: 'lr', range: [1, 100], log: true }, 0.5, 1);
  expect(low).toBeCloseTo(10);
  expect(high).toBeCloseTo(100);
  expect(part({ label: 'x', range: [0, 10] }, -0.1, 0.5)).toEqual([-1, 5]);
});
