jest.mock('@jupyterlab/apputils', () => ({}));
jest.mock('@jupyterlab/coreutils', () => ({}));
jest.mock('@jupyterlab/services', () => ({}));
jest.mock('../tokens', () => ({}));

import { IExperiment, IHealth, State } from '../server/api';
import { Newsroom } from './notify';

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
