/** @jest-environment node */
import * as React from 'react';
import { renderToStaticMarkup } from 'react-dom/server';

import { StateMark, clock, settingUp, spreadWords } from './words';
import { columns } from './table/columns';

const filled = (text: string, ...values: unknown[]) =>
  text.replace(/%(\d)/g, (_, at) => String(values[Number(at) - 1]));
const trans = {
  __: filled,
  _n: (one: string, many: string, count: number) => filled(count === 1 ? one : many, count)
} as never;
const text = (html: string) => html.replace(/<[^>]*>/g, '');

test('a trial that is setting up says since when, in a class of its own', () => {
  const since = new Date().toISOString();
  const html = renderToStaticMarkup(<StateMark state="setting up" since={since} trans={trans} />);
  expect(html).toContain('class="wb-State wb-mod-setting-up"');
  expect(text(html)).toBe(`⧗ setting up since ${clock(since)}`);
});

test('other states have no time, whatever the server says', () => {
  const html = renderToStaticMarkup(<StateMark state="running" since="2026-11-23T14:05:00Z" trans={trans} />);
  expect(text(html)).toBe('▶ running');
  expect(text(renderToStaticMarkup(<StateMark state="setting up" trans={trans} />))).toBe('⧗ setting up');
});

test.each([
  [{}, ''],
  [{ running: 2, 'setting up': 0 }, ''],
  [{ 'setting up': 1 }, '1 trial setting up'],
  [{ 'setting up': 3 }, '3 trials setting up']
])('%j is said as %j', (counts, said) => {
  expect(settingUp(counts, trans)).toBe(said);
});

test('rows of earlier servers have no counts', () => {
  expect(settingUp(undefined as never, trans)).toBe('');
});

test('the best of several trials is shown with their mean', () => {
  const best = { value: 0.97, trial: 't0000', number: 0 };
  expect(spreadWords(best, trans)).toBeNull();
  expect(spreadWords(null, trans)).toBeNull();
  const of = { mean: 0.950915, deviation: 0.01774, trials: 6 };
  expect(spreadWords({ ...best, of }, trans)).toBe('mean 0.9509 ± 0.01774 of 6 trials');
  const same = { mean: 0.97, deviation: 0, trials: 3 };
  expect(spreadWords({ ...best, of: same }, trans)).toBe('mean 0.97 ± 0 (the same bits) of 3 trials');
});

test('the table has means where configurations have several trials', () => {
  const ids = (several: boolean) => columns([], { metric: 'acc', mode: 'max' }, trans, several).map(({ id }) => id);
  expect(ids(false)).not.toContain('mean');
  expect(ids(true).slice(0, 5)).toEqual(['trial', 'state', 'acc', 'mean', 'deviation']);
});

test('a time of another year is shown with it', () => {
  const now = new Date('2026-11-20T12:00:00');
  expect(clock('2025-11-03T14:05:00', now)).toContain('2025');
  expect(clock('2026-11-03T14:05:00', now)).not.toContain('2026');
});
