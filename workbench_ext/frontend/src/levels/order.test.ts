import { ITrial } from '../server/api';
import { standings } from './order';

const trial = (number: number, started: string | null, ended: string | null) =>
  ({ number, started, ended }) as unknown as ITrial;

const TRIALS = [
  trial(0, '10:00', '10:09'),
  trial(1, '10:01', '10:03'),
  trial(2, '10:02', null),
  trial(3, '10:03', '10:05')
];
const VALUES = new Map([
  [0, 0.7],
  [1, 0.5],
  [2, 0.9],
  [3, 0.4]
]);

it('goes by end, and trials that have not ended come last', () => {
  expect(standings(TRIALS, VALUES, 'ended', 'max')).toEqual([
    { trial: 1, place: 1, value: 0.5, best: 0.5 },
    { trial: 3, place: 2, value: 0.4, best: 0.5 },
    { trial: 0, place: 3, value: 0.7, best: 0.7 },
    { trial: 2, place: 4, value: 0.9, best: 0.9 }
  ]);
});

it('goes by start, and a smaller value is better where the goal says so', () => {
  const found = standings(TRIALS, VALUES, 'started', 'min');
  expect(found.map(one => one.trial)).toEqual([0, 1, 2, 3]);
  expect(found.map(one => one.best)).toEqual([0.7, 0.5, 0.5, 0.4]);
});

it('leaves out trials without a finite value, and bears one or none', () => {
  const values = new Map([
    [0, NaN],
    [1, Infinity],
    [3, 0.4]
  ]);
  expect(standings(TRIALS, values, 'ended', 'max')).toEqual([{ trial: 3, place: 1, value: 0.4, best: 0.4 }]);
  expect(standings([], VALUES, 'ended', 'max')).toEqual([]);
});

it('orders equal times by number', () => {
  const same = [trial(5, 'x', 'x'), trial(2, 'x', 'x')];
  const values = new Map([
    [5, 1],
    [2, 1]
  ]);
  expect(standings(same, values, 'started', 'max').map(one => one.trial)).toEqual([2, 5]);
});
