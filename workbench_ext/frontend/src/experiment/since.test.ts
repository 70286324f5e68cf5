jest.mock('@jupyterlab/coreutils', () => ({}));
jest.mock('@jupyterlab/services', () => ({}));

import { TranslationBundle } from '@jupyterlab/translation';

import { ISince } from '../ladder/data';
import { sinceWords } from './since';

/** English, with the places filled in as a catalogue does. */
const trans = {
  __: (text: string, ...args: unknown[]) => text.replace(/%(\d)/g, (_, n) => String(args[n - 1])),
  _n: (one: string, many: string, count: number, ...args: unknown[]) =>
    (count === 1 ? one : many).replace(/%(\d)/g, (_, n) => String(args[n - 1]))
} as unknown as TranslationBundle;

const NOTHING: ISince = { retries: 0, failures: 0, best: null, ended: null };
const NOON = new Date(2026, 10, 20, 12, 0);

test('it says what happened, and nothing of what did not', () => {
  const at = new Date(2026, 10, 20, 11, 5).toISOString();
  expect(
    sinceWords(
      { ...NOTHING, retries: 2, best: { first: 0.971, last: 0.978 }, ended: { at, state: 'completed' } },
      trans,
      NOON
    )
  ).toBe('2 retries, best 0.971 → 0.978, completed 11:05');
  expect(sinceWords({ ...NOTHING, retries: 1, failures: 1 }, trans, NOON)).toBe('1 retry, 1 failure');
  expect(sinceWords({ ...NOTHING, best: { first: null, last: 0.5 } }, trans, NOON)).toBe('best 0.5');
});

test('an end of another day says the day', () => {
  const at = new Date(2026, 10, 3, 14, 5).toISOString();
  expect(sinceWords({ ...NOTHING, ended: { at, state: 'failed' } }, trans, NOON)).toMatch(/^failed .*3.* 14:05$/);
});
