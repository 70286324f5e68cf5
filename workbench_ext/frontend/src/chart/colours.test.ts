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

test('the best is yellow, whichever way the goal goes', () => {
  for (const mode of ['max', 'min'] as const) {
    const values = [3, 1, 2];
    const best = mode === 'max' ? 3 : 1;
    expect(share(best, spread(values, mode)!)).toBe(1);
  }
  expect(spread([NaN, Infinity], 'max')).toBeNull();
  expect(share(5, [5, 5])).toBe(1);
  expect(share(NaN, [0, 1])).toBeNaN();
});

test('colours keep clear of the page', () => {
  expect(visible(1, false)).toBeLessThan(1);
  expect(visible(0, true)).toBeGreaterThan(0);
  expect(visible(1, true)).toBeCloseTo(1);
});

test('categories repeat, on white and on black, and every state has its colour', () => {
  for (const dark of [false, true]) {
    const eight = [0, 1, 2, 3, 4, 5, 6, 7].map(index => categorical(index, dark));
    expect(new Set(eight).size).toBe(8);
    expect(categorical(8, dark)).toBe(eight[0]);
  }
  expect(stateColour('failed')).not.toBe(stateColour('completed'));
});
