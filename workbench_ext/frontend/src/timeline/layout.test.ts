import { ILeg } from '../server/api';
import { barAt, beside, ticks, times, use, zoomed } from './layout';

const leg = (trial: number, slot: string, from: number, to: number | null, more: Partial<ILeg> = {}): ILeg => ({
  trial,
  label: `t${trial}`,
  attempt: 1,
  worker: 'w',
  slot,
  parts: 1,
  start: 0,
  until: 1,
  began_s: from,
  left_s: to,
  started: null,
  ended: null,
  outcome: to === null ? null : 'reached',
  reason: null,
  checkpoint: null,
  pid: null,
  ...more
});

const LEGS = [
  leg(1, 'w/10', 100, 110),
  leg(2, 'w/2', 100, 104, { outcome: 'died' }),
  leg(2, 'w/10', 110, 120, { attempt: 2 }),
  leg(3, 'w/2', 105, 108, { outcome: 'failed' }),
  leg(3, 'w/2', 109, 112, { attempt: 2 }),
  leg(3, 'w/2', 111, null, { attempt: 3 }),
  leg(4, 'w/2', 0, 1, { began_s: null })
];
const found = times(LEGS, ['w/10', 'w/2']);

test('each slot is a row, in the order of its number, and a slot trains one at a time', () => {
  expect(found.slots).toEqual(['w/2', 'w/10']);
  expect(found.rows.map(bars => bars.map(bar => [bar.from, bar.to]))).toEqual([
    [
      [100, 104],
      [105, 108],
      [109, 111],
      [111, null]
    ],
    [
      [100, 110],
      [110, 120]
    ]
  ]);
  expect([found.first, found.last, found.training]).toEqual([100, 120, true]);
});

test('a slot that was divided has a row for each part that was in use', () => {
  const half = { parts: 2 };
  const found = times(
    [
      leg(1, 'w/0', 0, 10, half),
      leg(2, 'w/0', 1, 5, half),
      leg(3, 'w/0', 6, null, half),
      leg(4, 'w/0', 11, 12, half),
      leg(5, 'w/1', 0, 4)
    ],
    ['w/0', 'w/1']
  );
  expect(found.rows.map(bars => bars.map(bar => bar.leg.trial))).toEqual([[1, 4], [2, 3], [5]]);
  expect(found.bars.map(bar => bar.row)).toEqual([0, 0, 1, 1, 2]);
  expect(found.places).toEqual([
    { slot: 0, part: 0 },
    { slot: 0, part: 1 },
    { slot: 1, part: null }
  ]);
  expect(use(found, [0, 4], 12)).toBeCloseTo((4 / 2 + 3 / 2 + 4) / 8);
});

test('what went otherwise than planned is marked, and going on after a level is not', () => {
  const marks = found.bars.map(({ leg, begin, end }) => [leg.trial, leg.attempt, begin, end]);
  expect(marks).toEqual([
    [2, 1, null, 'died'],
    [3, 1, null, 'failed'],
    [3, 2, 'retried', null],
    [3, 3, null, null],
    [1, 1, null, null],
    [2, 2, 'moved', null]
  ]);
});

test('the share of slots in use counts what trains until now', () => {
  expect(use(found, [100, 120], 120)).toBeCloseTo((4 + 3 + 2 + 9 + 10 + 10) / 40);
  expect(use(found, [100, 100], 120)).toBeNull();
});

test('ticks are round times since the beginning, and not more than fit', () => {
  expect(
    ticks([100, 220], 100, 900)
      .map(({ label }) => label)
      .slice(0, 4)
  ).toEqual(['0 s', '15 s', '30 s', '45 s']);
  expect(ticks([100, 100.5], 100, 600).map(({ label }) => label)[1]).toBe('0.1 s');
  expect(ticks([0, 86400], 0, 600)[1]!.label).toBe('6:00 h');
  expect(ticks([0, 1e7], 0, 600).length).toBeLessThan(8);
});

test('zooming keeps the time under the pointer where it is', () => {
  const [from, to] = zoomed([0, 100], 25, 0.5, [0, 100]);
  expect([from, to]).toEqual([12.5, 62.5]);
  const [least, most] = zoomed([0, 100], 50, 100, [0, 100]);
  expect(most - least).toBeCloseTo(120);
});

test('a leg is found by a time near it, and by arrows', () => {
  const row = found.rows[0]!;
  expect(barAt(row, 106, 0.5, 120)).toBe(row[1]);
  expect(barAt(row, 104.3, 0.5, 120)).toBe(row[0]);
  expect(barAt(row, 104.7, 0.1, 120)).toBeNull();
  expect(barAt(row, 115, 0.1, 120)).toBe(row[3]);
  expect(beside(found, row[0]!, 'ArrowRight')).toBe(row[1]);
  expect(beside(found, row[2]!, 'ArrowDown')).toBe(found.rows[1]![1]);
  expect(beside(found, found.rows[1]![1]!, 'ArrowUp')).toBe(row[2]);
  expect(beside(found, row[0]!, 'ArrowLeft')).toBeNull();
});
