/** The fold gives what the store's own fold gave, in one go and in pieces (tests/store/test_ladder.py). */

import { readFileSync, readdirSync } from 'fs';
import { join } from 'path';

import { IEvent } from '../server/api';
import { Ladder } from './ladder';
import { ILadder, IPlan, since } from './data';

const FIXTURES = join(__dirname, '../../../../tests/fixtures/ladder');

interface IRecorded {
  readonly plan: IPlan;
  readonly events: IEvent[];
  readonly ladder: ILadder;
}

const RECORDED: readonly [string, IRecorded][] = readdirSync(FIXTURES)
  .filter(name => name.endsWith('.json'))
  .map(name => [name, JSON.parse(readFileSync(join(FIXTURES, name), 'utf8')) as IRecorded]);

const plain = (ladder: ILadder) => JSON.parse(JSON.stringify(ladder)) as ILadder;

/** Whole numbers that look drawn by lot and are the same each time. */
function* lots(seed: number): Generator<number> {
  for (let state = seed; ;) {
    state = (state * 1103515245 + 12345) % 2147483648;
    yield state >> 8;
  }
}

describe.each(RECORDED)('%s', (_, { plan, events, ladder }) => {
  it('gives the recorded ladder', () => {
    expect(plain(new Ladder(plan).fold(events).snapshot())).toEqual(ladder);
  });

  it('gives the same in any pieces, with repeats, and when it goes on from what the server folded', () => {
    for (let seed = 1; seed <= 60; seed++) {
      const lot = lots(seed);
      let fold = new Ladder(plan);
      for (let at = 0; at < events.length;) {
        const next = at + 1 + ((lot.next().value as number) % 90);
        fold.fold(events.slice(Math.max(0, at - 2), next));
        fold = seed % 3 ? fold : new Ladder(plain(fold.snapshot()));
        if (seed % 2) {
          fold.snapshot();
        }
        at = next;
      }
      expect(plain(fold.snapshot())).toEqual(ladder);
    }
  });

  it('gives rungs in which nothing changed as the same objects', () => {
    const fold = new Ladder(plan).fold(events.slice(0, -20));
    const before = fold.snapshot();
    const between = fold.snapshot();
    expect(between.brackets[0]!.rungs[0]).toBe(before.brackets[0]!.rungs[0]);
    const after = fold.fold(events).snapshot();
    const rungs = (one: ILadder) => one.brackets.flatMap(bracket => bracket.rungs);
    rungs(after).forEach((rung, at) => {
      if (rung !== rungs(before)[at]) {
        expect(plain(after).brackets).not.toEqual(plain(before).brackets);
      }
    });
  });
});

describe('since', () => {
  const { ladder } = RECORDED.find(([name]) => name === 'hyperband-9.json')![1];

  it('says what was missed', () => {
    const failure = ladder.happened.find(({ kind }) => kind === 'failure')!.n;
    expect(since(ladder, 0)).toMatchObject({
      retries: 2,
      failures: 1,
      best: { first: null, last: ladder.best!.value },
      ended: { state: 'completed' }
    });
    expect(since(ladder, failure)).toMatchObject({ retries: 1, failures: 0 });
    expect(since(ladder, failure).best!.first).toBeLessThan(ladder.best!.value);
    expect(since(ladder, ladder.n)).toEqual({ retries: 0, failures: 0, best: null, ended: null });
  });
});
