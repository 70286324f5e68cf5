jest.mock('@jupyterlab/coreutils', () => ({}));
jest.mock('@jupyterlab/services', () => ({}));

import { ApiError, Query } from '../server/api';
import { Rounds } from './rounds';

/** A server that takes `cost` milliseconds for an answer. */
class Served {
  asked: string[] = [];
  /** Questions under way, and the most at any time. */
  open = 0;
  most = 0;
  broken: string | null = null;
  cost = 10;

  get = async <T>(path: string, query: Query = {}): Promise<T> => {
    const name = String(query.metric ?? query.system ?? '');
    this.asked.push(name);
    if (path.endsWith('/curves')) {
      this.open += 1;
      this.most = Math.max(this.most, this.open);
    }
    await new Promise(done => setTimeout(done, this.cost));
    if (path.endsWith('/metrics')) {
      return { metrics: [{ name: 'loss', goal: true }], system: [] } as T;
    }
    this.open -= 1;
    if (name === this.broken) {
      throw new ApiError(500, 'It is broken.');
    }
    return { curves: [{ trial: 7, x: [1, 2], y: [3, 4], points: 2, thinned: false }] } as T;
  };
}

let served: Served;
let rounds: Rounds;

const curves = () => served.asked.filter(Boolean);

beforeEach(() => {
  jest.useFakeTimers();
  served = new Served();
  rounds = new Rounds({ api: served, ref: 'digits@1' }, 7, 300);
});

afterEach(() => {
  rounds.dispose();
  jest.useRealTimers();
});

test('only charts on the screen are asked for, one after the other', async () => {
  rounds.ask();
  await jest.advanceTimersByTimeAsync(20);
  ['a', 'b', 'c', 'd'].forEach(name => rounds.show('metric', name));
  rounds.hide('metric', 'c');
  await jest.advanceTimersByTimeAsync(400);
  expect(rounds.listed?.metrics).toEqual([{ name: 'loss', goal: true }]);
  expect(curves()).toEqual(['a', 'b', 'd']);
  expect(served.most).toBe(1);
  expect(rounds.curve('metric', 'a')?.y).toEqual([3, 4]);
  expect(rounds.curve('metric', 'c')).toBeUndefined();
});

test('a trial that changes all the time is asked about in rounds, which never overlap', async () => {
  served.cost = 100;
  Array.from('abcdefgh').forEach(name => rounds.show('metric', name));
  for (let turn = 0; turn < 40; turn++) {
    rounds.ask();
    await jest.advanceTimersByTimeAsync(250);
  }
  // A round takes 0.8 s, and the pause after it as long: six begin in ten seconds.
  expect(curves().length).toBeLessThanOrEqual(7 * 8);
  expect(served.most).toBe(1);
});

test('what it reported last is asked for, however fast it changed', async () => {
  rounds.show('metric', 'a');
  for (let turn = 0; turn < 5; turn++) {
    rounds.ask();
    await jest.advanceTimersByTimeAsync(30);
  }
  await jest.advanceTimersByTimeAsync(3000);
  expect(curves()).toEqual(['a', 'a']);
});

test('a chart that comes on the screen during a round is in it, and one that returns unchanged is not asked for', async () => {
  rounds.show('metric', 'a');
  await jest.advanceTimersByTimeAsync(5);
  rounds.show('system', 'cpu');
  await jest.advanceTimersByTimeAsync(20);
  expect(curves()).toEqual(['a', 'cpu']);
  rounds.hide('metric', 'a');
  await jest.advanceTimersByTimeAsync(2000);
  rounds.show('metric', 'a');
  await jest.advanceTimersByTimeAsync(2000);
  expect(curves()).toEqual(['a', 'cpu']);
});

test('a curve that cannot be read is told, and costs no other', async () => {
  served.broken = 'a';
  rounds.show('metric', 'a');
  rounds.show('metric', 'b');
  await jest.advanceTimersByTimeAsync(2000);
  expect(rounds.error).toBe('It is broken.');
  expect(rounds.curve('metric', 'b')).toBeDefined();
  served.broken = null;
  rounds.ask();
  await jest.advanceTimersByTimeAsync(2000);
  expect(rounds.error).toBeNull();
});

test('a page that was left asks nothing more', async () => {
  Array.from('abcd').forEach(name => rounds.show('metric', name));
  await jest.advanceTimersByTimeAsync(15);
  rounds.dispose();
  await jest.advanceTimersByTimeAsync(2000);
  expect(curves()).toEqual(['a', 'b']);
});
