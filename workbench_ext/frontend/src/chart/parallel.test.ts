import { ITrial } from '../server/api';
import { IParameter } from '../parameters/parameters';
import { jitter } from './dots';
import { between, brushed, dimensions, GOAL } from './parallel';

const LR: IParameter = { name: 'lr', kind: 'number', log: true, low: 0.001, high: 1, categories: [] };
const OPT: IParameter = { name: 'opt', kind: 'category', log: false, low: 0, high: 1, categories: ['sgd', 'adam'] };
const MOMENTUM: IParameter = { name: 'momentum', kind: 'number', log: false, low: 0, high: 1, categories: [] };
const trial = (number: number, configuration: object, best: number | null) =>
  ({ number, configuration, best, value: best }) as unknown as ITrial;
const TRIALS = [
  trial(0, { lr: 0.001, opt: 'sgd', momentum: 0.5 }, 0.9),
  trial(1, { lr: 1, opt: 'adam' }, 0.5),
  trial(2, { lr: 0.0316227766, opt: 'adam' }, null)
];

test('a trial that is far better than all others is at its own place on the axis of the goal', () => {
  const trials = Array.from({ length: 60 }, (_, k) => trial(k, {}, k === 7 ? 0.9 : 0.1 + k / 1000));
  const [axis] = dimensions([], { metric: 'acc', mode: 'max' }, trials, 300);
  expect(axis!.scale.axis.range[1]).toBeGreaterThan(0.9);
});

test('a logarithmic axis stands as such, and the best is at the top whichever way the goal goes', () => {
  const [lr, , , best] = dimensions([LR, OPT, MOMENTUM], { metric: 'acc', mode: 'max' }, TRIALS, 300);
  expect(TRIALS.map(lr!.of).map(Math.round)).toEqual([300, 0, 150]);
  expect(best!.id).toBe(GOAL);
  expect(best!.of(TRIALS[0]!)).toBeLessThan(best!.of(TRIALS[1]!));
  const least = dimensions([], { metric: 'loss', mode: 'min' }, TRIALS, 300)[0]!;
  expect(least.of(TRIALS[1]!)).toBeLessThan(least.of(TRIALS[0]!));
});

test('what is inactive or was not reported crosses below the axis', () => {
  const [, , momentum, best] = dimensions([LR, OPT, MOMENTUM], { metric: 'acc', mode: 'max' }, TRIALS, 300);
  expect(momentum!.lacks(TRIALS[1]!)).toBe(true);
  expect(momentum!.of(TRIALS[1]!)).toBeGreaterThan(300);
  expect(best!.of(TRIALS[2]!)).toBeGreaterThan(300);
});

test('categories are apart, and their trials spread inside of them', () => {
  const [opt] = dimensions([OPT], null, TRIALS, 300);
  expect(opt!.of(TRIALS[0]!)).toBeGreaterThan(160);
  expect(opt!.of(TRIALS[1]!)).toBeLessThan(140);
  expect(opt!.of(TRIALS[1]!)).not.toBe(opt!.of(TRIALS[2]!));
  for (let number = 0; number < 1000; number += 1) {
    expect(Math.abs(jitter(number))).toBeLessThanOrEqual(1);
  }
});

test('brushes on several axes select what passes all of them', () => {
  const axes = dimensions([LR, OPT, MOMENTUM], { metric: 'acc', mode: 'max' }, TRIALS, 300);
  expect(brushed(TRIALS, axes, {})).toEqual([0, 1, 2]);
  expect(brushed(TRIALS, axes, { opt: [0, 150] })).toEqual([1, 2]);
  expect(brushed(TRIALS, axes, { opt: [0, 150], lr: [0, 20] })).toEqual([1]);
  expect(brushed(TRIALS, axes, { momentum: [0, 300] })).toEqual([0]);
});

test('between two axes the shares go from one to the other', () => {
  expect(between(0, [0, 100])).toMatchObject({ at: 0 });
  expect(between(0, [0, 100])!.after).toBeCloseTo(0);
  expect(between(50, [0, 100])!.after).toBeCloseTo(0.5);
  expect(between(100, [0, 100, 200])!.after).toBeCloseTo(1);
  expect(between(300, [0, 100])).toBeNull();
});
