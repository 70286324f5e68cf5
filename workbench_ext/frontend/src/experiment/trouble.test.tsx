/** @jest-environment node */
import * as React from 'react';
import { renderToStaticMarkup } from 'react-dom/server';

import { ITrouble } from '../server/api';
import { Troubles } from './trouble';

const trans = { __: (text: string) => text } as never;
const ROOM: ITrouble = { kind: 'room', words: 'the disk has 1 kB left, <b>of which' };
const STORAGE: ITrouble = { kind: 'storage', words: 'waits since 12:00:00 UTC: s3://bucket' };

const MIRROR: ITrouble = { kind: 'mirror', words: 'mlflow http://host:5000: connection refused' };

test('nothing is said where nothing is the matter', () => {
  expect(renderToStaticMarkup(<Troubles troubles={[]} trans={trans} />)).toBe('');
  expect(renderToStaticMarkup(<Troubles troubles={undefined} trans={trans} />)).toBe('');
});

test('a row says in a word what waits, and why in its tip; a page says it all', () => {
  const row = renderToStaticMarkup(<Troubles troubles={[ROOM, STORAGE, MIRROR]} trans={trans} />);
  expect(row).toContain('<strong>no room on the disk</strong></span>');
  expect(row).toContain('<strong>storage unreachable</strong></span>');
  expect(row).toContain('<strong>mirror unreachable</strong></span>');
  expect(row).toContain('title="waits since 12:00:00 UTC: s3://bucket"');
  const page = renderToStaticMarkup(<Troubles troubles={[ROOM]} trans={trans} whole={true} />);
  expect(page).toContain('</strong>: the disk has 1 kB left, &lt;b&gt;of which</span>');
});
