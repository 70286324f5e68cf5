/** @jest-environment node */
import * as React from 'react';
import { renderToStaticMarkup } from 'react-dom/server';

import { StateMark, clock, settingUp } from './words';

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
