/** @jest-environment node */
import * as React from 'react';
import { renderToStaticMarkup } from 'react-dom/server';

import { columns } from '../table/columns';
import { InexactMark, Outcome, lostNames } from './outcome';

const trans = {
  __: (text: string, ...values: unknown[]) =>
    values.reduce<string>((words, value, place) => words.replace(`%${place + 1}`, String(value)), text)
} as never;
const LOST = {
  inexact: [
    { name: 'it', reason: 'an iterator' },
    { name: '<b>bar', reason: 'a bar' }
  ]
};

test('nothing is said where all is well', () => {
  expect(renderToStaticMarkup(<Outcome outcome={undefined} />)).toBe('');
  expect(renderToStaticMarkup(<Outcome outcome={{ failed: '', inexact: '' }} />)).toBe('');
  expect(renderToStaticMarkup(<InexactMark trial={{}} trans={trans} />)).toBe('');
  expect(lostNames({ inexact: null })).toBeNull();
});

test('a trial that was resumed inexactly has a sign and words, which are text', () => {
  const whole = renderToStaticMarkup(<InexactMark trial={LOST} trans={trans} />);
  expect(whole).toContain('</span> resumed inexactly: it, &lt;b&gt;bar</span>');
  const short = renderToStaticMarkup(<InexactMark trial={LOST} trans={trans} short={true} />);
  expect(short).toContain('aria-label="resumed inexactly: it, &lt;b&gt;bar"');
});

test('the page says all that is known, a list only what went wrong', () => {
  const outcome = {
    failed: '4 failed (KeyError: lr)',
    promoted: '',
    inexact: 'resumed inexactly: it (3 trials)',
    checked: 'resume checked: identical',
    lost: 'Curves before 2026-11-22 10:03 were lost; 49 of 357 points were put back from the journal',
    seeds: 'all 3 trials of the best configuration gave the same bits; if the seed should matter, …'
  };
  const page = renderToStaticMarkup(<Outcome outcome={outcome} />);
  expect(page.match(/<li/g)).toHaveLength(5);
  expect(page).toContain('49 of 357 points were put back');
  expect(page).toContain('resume checked: identical');
  const list = renderToStaticMarkup(<Outcome outcome={outcome} few={true} />);
  expect(list.match(/<li/g)).toHaveLength(2);
  expect(list).not.toContain('resume checked');
  expect(list).not.toContain('were lost');
  expect(list).not.toContain('the same bits');
});

test('a column of the table names what was lost', () => {
  const column = columns([], null, trans).find(({ id }) => id === 'inexact')!;
  expect(column.usual).toBe(false);
  expect(column.of(LOST as never)).toBe('it, <b>bar');
  expect(column.of({} as never)).toBeNull();
});
