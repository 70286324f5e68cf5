jest.mock('@jupyterlab/apputils', () => ({}));
jest.mock('@jupyterlab/coreutils', () => ({}));
jest.mock('@jupyterlab/services', () => ({}));
jest.mock('../tokens', () => ({}));

import { IExperiment, IHealth, State } from '../server/api';
import { Bulletin, Newsroom, together } from './notify';

const trans = {
  __: (text: string, ...given: unknown[]) =>
    text.replace(/%(\d)/g, (_, place: string) => String(given[Number(place) - 1]))
} as never;
const list = (state: State) => [{ id: 'a', label: 'a@1', state } as IExperiment];
const engine = (alive: boolean) => ({ engine: { alive } }) as IHealth;

function told(...states: State[]): string[] {
  const newsroom = new Newsroom();
  return states.flatMap(state => newsroom.read(list(state), engine(true)).map(({ kind }) => kind));
}

test('the end of what was seen running is news, once', () => {
  expect(told('running', 'completed', 'completed')).toEqual(['ended']);
  expect(told('waiting', 'running', 'stopping', 'stopped')).toEqual(['ended']);
  expect(told('running', 'failed')).toEqual(['failed']);
});

test('what had ended before, and what a person paused, is no news', () => {
  expect(told('completed')).toEqual([]);
  expect(told('failed', 'failed')).toEqual([]);
  expect(told('running', 'paused', 'running')).toEqual([]);
});

test('one that waits because its engine is gone has stalled', () => {
  const newsroom = new Newsroom();
  newsroom.read(list('running'), engine(true));
  expect(newsroom.read(list('waiting'), engine(false)).map(({ kind }) => kind)).toEqual(['stalled']);
  newsroom.read(list('running'), engine(true));
  expect(newsroom.read(list('waiting'), engine(true))).toEqual([]);
});

function bulletin(seen: readonly string[] = []): { told: string[]; tell: (label: string, at: number) => void } {
  const told: string[] = [];
  const made = new Bulletin(
    (_, news, isQuiet, replaces) => {
      told.push(`${isQuiet ? 'quietly: ' : ''}${replaces ? `${replaces} > ` : ''}${together(news, trans)}`);
      return String(told.length);
    },
    ({ label }) => seen.includes(label)
  );
  const tell = (label: string, at: number) =>
    made.add({ kind: 'ended', experiment: { label, state: 'completed' } as IExperiment }, at);
  return { told, tell };
}

test('what ends while one is shown is told together, in its place', () => {
  const { told, tell } = bulletin();
  [0, 9000, 20_000, 40_000].forEach((at, place) => tell(`n${place}`, at));
  expect(told).toEqual([
    'n0 is complete',
    '1 > 2 experiments have ended: n0, n1',
    '2 > 3 experiments have ended: n0, n1, n2',
    'n3 is complete'
  ]);
});

test('of many the first are named', () => {
  const { told, tell } = bulletin();
  Array.from('abcdef').forEach(label => tell(label, 0));
  expect(told.slice(-2)).toEqual([
    '4 > 5 experiments have ended: a, b, c, d, e',
    '5 > 6 experiments have ended: a, b, c, d and 2 more'
  ]);
});

test('what the user looks at needs no notice', () => {
  const { told, tell } = bulletin(['b']);
  tell('a', 0);
  tell('b', 1);
  tell('c', 2);
  expect(told).toEqual(['a is complete', 'quietly: b is complete', '1 > 2 experiments have ended: a, c']);
});
