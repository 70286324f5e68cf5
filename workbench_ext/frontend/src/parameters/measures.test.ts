import { IMeasured, ITrial } from '../server/api';
import { columns, format } from '../table/columns';
import { measuresOf } from './measures';
import { IParameter } from './parameters';
import { axisOf, values } from './values';

const filled = (text: string, ...values: unknown[]) =>
  text.replace(/%(\d)/g, (_, at) => String(values[Number(at) - 1]));
const trans = { __: filled } as never;
const GOAL = { metric: 'val_acc', mode: 'max' } as const;
const parameter = (name: string): IParameter => ({
  name,
  kind: 'number',
  log: false,
  low: 0,
  high: 1,
  categories: []
});
const one: IMeasured = {
  trial: 0,
  metrics: {
    val_acc: { last: 0.8, low: 0.1, high: 0.9, at_best: 0.9 },
    'val/loss': { last: 'nan', low: 0.25, high: 3, at_best: 0.25 }
  },
  best: 0.9,
  best_step: 7,
  duration: 75.2,
  slot_time: 0.42,
  setup_time: null,
  bytes: 1_400_000,
  slot: 'cpu10',
  system: { cpu: 1.5, memory: 2e9, waits: 0.25 }
};
const other: IMeasured = { ...one, trial: 1, metrics: {}, bytes: 0, slot: 'cpu2' };
const MEASURED = new Map([
  [0, one],
  [1, other]
]);
const trial = (number: number) => ({ number, configuration: {}, value: 0.8, step: 9 }) as unknown as ITrial;

test('what its processes used is listed by the names of exp.trials', () => {
  const system = [
    { name: 'cpu', title: 'processor', unit: 'cores' },
    { name: 'memory', title: 'memory', unit: 'GB' },
    { name: 'waits', title: 'waits for data', unit: '%' },
    { name: 'gpu', title: 'GPU', unit: '%' }
  ];
  const found = measuresOf([], GOAL, [], trans, system).filter(({ group }) => group === 'System');
  expect(found.map(({ id, label, unit, of }) => [id, label, unit, of(one)])).toEqual([
    ['system/cpu', 'processor (cores)', null, 1.5],
    ['system/memory', 'memory', 'B', 2e9],
    ['system/waits', 'waits for data (share)', null, 0.25],
    ['system/gpu', 'GPU (share)', null, null]
  ]);
});

function all(names: readonly string[] = ['val_acc', 'val/loss'], known: readonly IParameter[] = []) {
  return measuresOf(names, GOAL, known, trans);
}

test('each metric has its last, lowest and highest value and the one at the best step', () => {
  const found = Object.fromEntries(all().map(({ id, label, of }) => [id, [label, of(one)]]));
  expect(found).toEqual({
    best: ['best val_acc', 0.9],
    best_step: ['step of best val_acc', 7],
    'val/loss': ['val/loss', NaN],
    'val/loss.low': ['lowest val/loss', 0.25],
    'val/loss.high': ['highest val/loss', 3],
    'val/loss.at_best': ['val/loss at best val_acc', 0.25],
    duration: ['duration', 75.2],
    slot_time: ['time in slots', 0.42],
    setup_time: ['set-up time', null],
    bytes: ['checkpoints', 1_400_000],
    slot: ['slot', 'cpu10']
  });
});

test('names are unique, whatever metrics and hyperparameters are called', () => {
  const known = ['slot', 'best', 'loss'].map(parameter);
  const measures = all(['val_acc', 'loss', 'slot', 'step', 'level', 'duration'], known);
  const ids = columns(known, GOAL, trans, true, measures, MEASURED).map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids).toEqual(
    expect.arrayContaining(['trial.best', 'trial.slot', 'metric.loss', 'metric.duration', 'duration'])
  );
});

test.each([
  ['loss', 'loss', 'configuration.loss'],
  ['acc', 'acc', 'loss'],
  ['step', 'metric.step', 'loss'],
  ['level', 'level', 'loss']
])('a goal called %s is the column %s, as in exp.trials, and a hyperparameter called loss is %s', (metric, id, own) => {
  const known = [parameter('loss'), parameter('state')];
  const goal = { metric, mode: 'min' } as const;
  const found = columns(known, goal, trans, true, measuresOf([metric], goal, known, trans), MEASURED);
  const ids = found.map(one => one.id);
  expect([...new Set(ids)]).toEqual(ids);
  expect(ids).toEqual(expect.arrayContaining([id, own, 'configuration.state', 'step', 'state']));
  const told = Object.fromEntries(found.map(one => [one.id, one.own]));
  expect([told[id], told[own], told['configuration.state']]).toEqual(['goal', undefined, undefined]);
});

test('columns are in the chooser, not in the table, and have units', () => {
  const found = columns([], GOAL, trans, false, all(), MEASURED);
  const named = (id: string) => found.find(column => column.id === id)!;
  expect(found.filter(({ usual }) => usual).map(({ id }) => id)).toEqual([
    ...['trial', 'state', 'val_acc', 'step', 'reason']
  ]);
  const told = (id: string) => format(named(id), [trial(0), trial(1)]).of(Number(named(id).of(trial(0))));
  expect(['val/loss.low', 'bytes', 'duration', 'slot_time'].map(told)).toEqual([
    ...['0.25', '1.4 MB', '1 min 15 s', '0.42 s']
  ]);
  expect(named('slot').number).toBe(false);
  expect(named('val/loss').of(trial(1))).toBeNull();
  expect(named('val/loss').of(trial(5))).toBeUndefined();
  expect(named('val/loss.at_best').group).toBe('val/loss');
});

test('every measure is an axis: steps are whole, slots are names', () => {
  const found = values({ parameters: [], goal: GOAL, measures: all(), measured: MEASURED }, trans);
  const named = (id: string) => found.find(value => value.id === id)!;
  expect(named('m:val/loss.low').of(trial(0))).toBe(0.25);
  expect(named('m:val/loss.low').of(trial(1))).toBeNaN();
  expect(axisOf(named('m:best_step'), [7], false).whole).toBe(true);
  expect(axisOf(named('m:slot'), [0, 1], false).categories).toEqual(['cpu2', 'cpu10']);
  expect([named('m:slot').of(trial(0)), named('m:slot').text(1)]).toEqual([1, 'cpu10']);
  expect(named('m:slot_time').label).toBe('time in slots (s)');
  expect(named('m:bytes').text(1_400_000)).toBe('1.4 MB');
});

test('what is far better than all other trials has a place on the axis of the goal, and of its best value', () => {
  const found = values({ parameters: [], goal: GOAL, measures: all(), measured: MEASURED }, trans);
  const reached = Array.from({ length: 60 }, (_, k) => (k === 7 ? 0.9 : 0.1 + k / 1000));
  const high = (id: string) =>
    axisOf(
      found.find(value => value.id === id)!,
      reached,
      false
    ).range[1];
  expect([high('goal') > 0.9, high('m:best') > 0.9, high('m:val/loss') > 0.9]).toEqual([true, true, false]);
});
