/** What the server tells in pieces makes the ladder that it tells as a whole (tests/store/test_ladder.py). */

import { readFileSync, readdirSync } from 'fs';
import { join } from 'path';

import { Rungs } from './ladder';
import { ILadder, ITold } from './data';

const FIXTURES = join(__dirname, '../../../../tests/fixtures/ladder');

const RECORDED: readonly [string, ITold][] = readdirSync(FIXTURES)
  .filter(name => name.endsWith('.json'))
  .map(name => {
    const text = readFileSync(join(FIXTURES, name), 'utf8');
    return [name, (JSON.parse(text) as { ladder: ITold }).ladder];
  });

const rungsOf = (ladder: ILadder) => ladder.brackets.flatMap(({ rungs }) => rungs);

/** The ladder as it may have been before some of its trials came to their last rung. */
function before(told: ITold, every: number): ITold {
  return {
    ...told,
    n: told.n - 5,
    trials: told.trials
      .filter(({ trial }) => trial % (every + 1) !== 1)
      .map(one => (one.trial % every === 0 ? { ...one, entries: one.entries.slice(0, -1) } : one))
  };
}

describe.each(RECORDED)('%s', (_, told) => {
  const whole = new Rungs().take(told);

  it('has every entry once, by rank', () => {
    const counted = told.trials.flatMap(({ entries }) => entries);
    expect(rungsOf(whole).flatMap(({ entries }) => entries)).toHaveLength(counted.length);
    const sign = told.goal.mode === 'max' ? -1 : 1;
    for (const { entries } of rungsOf(whole)) {
      const ranked = entries.filter(({ rank }) => rank !== null);
      expect(ranked.map(({ rank }) => rank)).toEqual(ranked.map((_, at) => at + 1));
      const keys = ranked.map(({ value }) => (typeof value === 'number' ? sign * value : Infinity));
      expect(keys).toEqual([...keys].sort((a, b) => (a === b ? 0 : a - b)));
    }
  });

  it('is the same when it was told in pieces', () => {
    for (const every of [1, 2, 3]) {
      const rungs = new Rungs();
      const first = before(told, every);
      rungs.take(first);
      expect(rungs.n).toBe(first.n);
      expect(rungs.take(told)).toEqual(whole);
    }
  });

  it('gives rungs in which nothing changed as the same objects', () => {
    const rungs = new Rungs();
    const first = rungs.take(told);
    const again = rungs.take({ ...told, n: told.n + 1, trials: [] });
    rungsOf(again).forEach((rung, at) => expect(rung).toBe(rungsOf(first)[at]));
    const [one] = told.trials;
    const changed = rungs.take({ ...told, n: told.n + 2, trials: [{ ...one!, entries: [] }] });
    const gone = new Set(one!.entries.map(({ step }) => step));
    const own = told.brackets[one!.bracket]!;
    rungsOf(changed).forEach((rung, at) => {
      const isOwn = changed.brackets[one!.bracket]!.rungs.includes(rung);
      const isTouched = isOwn && gone.has(rung.step) && own.rungs.length > 0;
      expect(rung === rungsOf(first)[at]).toBe(!isTouched);
    });
  });

  it('begins anew with a journal that is another one', () => {
    const rungs = new Rungs();
    rungs.take({ ...before(told, 2), n: told.n + 100 });
    expect(rungs.take(told)).toEqual(whole);
  });
});

it('ranks a value that is not compared last', () => {
  const entry = { step: 1, from: 0, fate: 'waiting' as const, reason: '' };
  const of = (trial: number, value: number | 'nan' | null, ranks: boolean) => ({
    trial,
    bracket: 0,
    entries: [{ ...entry, value, ranks }]
  });
  const told: ITold = {
    n: 1,
    goal: { metric: 'acc', mode: 'max' },
    scheduler: 'hyperband',
    best: null,
    brackets: [{ bracket: 1, turn: 0, rungs: [{ step: 1, places: 4, going: 1, cut: 0.5 }] }],
    trials: [of(3, null, false), of(0, 'nan', false), of(1, 0.9, false), of(2, 0.5, true)]
  };
  const [rung] = new Rungs().take(told).brackets[0]!.rungs;
  expect(rung!.entries.map(({ trial, rank }) => [trial, rank])).toEqual([
    [2, 1],
    [0, 2],
    [1, 3],
    [3, null]
  ]);
});

it('ranks the trials of a configuration by their mean, side by side', () => {
  const entry = { step: 1, from: 0, fate: 'waiting' as const, reason: '', ranks: true };
  const of = (trial: number, value: number, mean?: number) => ({
    trial,
    bracket: 0,
    entries: [{ ...entry, value, ...(mean !== undefined && { mean }) }]
  });
  const told: ITold = {
    n: 1,
    goal: { metric: 'acc', mode: 'max' },
    scheduler: 'hyperband',
    members: 2,
    best: null,
    brackets: [{ bracket: 1, turn: 0, rungs: [{ step: 1, places: 6, going: 2, cut: 0.6 }] }],
    trials: [of(0, 0.9, 0.5), of(1, 0.1, 0.5), of(2, 0.55, 0.6), of(3, 0.65, 0.6), of(4, 0.99)]
  };
  const ladder = new Rungs().take(told);
  expect(ladder.members).toBe(2);
  expect(ladder.brackets[0]!.rungs[0]!.entries.map(({ trial, rank }) => [trial, rank])).toEqual([
    [2, 1],
    [3, 2],
    [0, 3],
    [1, 4],
    // Its configuration has no mean yet.
    [4, 5]
  ]);
});
