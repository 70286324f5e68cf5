import { field, ISpot } from './field';

const NUMBERS = { x: false, y: false };

const grid = (value: (x: number, y: number) => number): ISpot[] =>
  Array.from({ length: 100 }, (_, k) => {
    const [x, y] = [(k % 10) / 9, Math.floor(k / 10) / 9];
    return { x, y, value: value(x, y) };
  });

it('follows a slope between the trials', () => {
  const at = field(
    grid(x => x),
    NUMBERS
  );
  for (const x of [0.25, 0.4, 0.5, 0.75]) {
    expect(at(x, 0.5)).toBeCloseTo(x, 1);
  }
  expect(at(0.3, 0.5)).toBeLessThan(at(0.6, 0.5));
});

it('never exceeds the values of trials', () => {
  const spots = grid((x, y) => Math.sin(9 * x) * Math.cos(7 * y));
  const [low, high] = [Math.min(...spots.map(({ value }) => value)), Math.max(...spots.map(({ value }) => value))];
  const at = field(spots, NUMBERS);
  for (let k = 0; k < 400; k += 1) {
    const value = at((k % 20) / 19, Math.floor(k / 20) / 19);
    expect(value).toBeGreaterThanOrEqual(low);
    expect(value).toBeLessThanOrEqual(high);
  }
});

it('is empty where no trial is near', () => {
  const at = field(
    [0, 0.02, 0.04].map(x => ({ x, y: x, value: 1 })),
    NUMBERS
  );
  expect(at(0.02, 0.02)).toBe(1);
  expect(at(0.9, 0.9)).toBeNaN();
  expect(at(0.02, 0.9)).toBeNaN();
});

it('interpolates within a category, and never between two', () => {
  const spots = [
    { x: 0, y: 0.5, value: 1 },
    { x: 1, y: 0.5, value: 5 }
  ];
  const at = field(spots, { x: true, y: false });
  expect(at(0, 0.5)).toBe(1);
  expect(at(0.45, 0.5)).toBe(1);
  expect(at(0.55, 0.5)).toBe(5);
  expect(at(2, 0.5)).toBeNaN();
});

it('is the mean of a cell of two categories', () => {
  const spots = [1, 2, 6].map(value => ({ x: 0, y: 1, value }));
  const at = field(spots, { x: true, y: true });
  expect(at(0, 1)).toBe(3);
  expect(at(1, 1)).toBeNaN();
});

it('bears one trial, equal places and none', () => {
  expect(field([], NUMBERS)(0.5, 0.5)).toBeNaN();
  expect(field([{ x: 0.5, y: 0.5, value: 2 }], NUMBERS)(0.5, 0.5)).toBe(2);
  const same = [1, 3].map(value => ({ x: 0.5, y: 0.5, value }));
  expect(field(same, NUMBERS)(0.5, 0.5)).toBe(2);
});
