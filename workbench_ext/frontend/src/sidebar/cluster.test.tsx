/** @jest-environment node */
import * as React from 'react';
import { renderToStaticMarkup } from 'react-dom/server';

import { Others } from './cluster';

const trans = {
  __: (text: string, ...values: unknown[]) =>
    values.reduce<string>((words, value, place) => words.replace(`%${place + 1}`, String(value)), text)
} as never;
const OURS = {
  slot: 'cpu0',
  store: '/home/me/.workbench',
  experiment: 'digits@1',
  pid: 7,
  since: '2026-01-01T00:00:00.000+00:00'
};

test('slots of other stores are named with who holds them, as text', () => {
  const held = [OURS, { ...OURS, slot: 'gpu-1', store: '/other/<b>', experiment: 'letters@2' }];
  const shown = renderToStaticMarkup(<Others held={held} root="/home/me/.workbench" trans={trans} />);
  expect(shown).toContain('gpu-1 is held by /other/&lt;b&gt; (letters@2)');
  expect(shown).not.toContain('cpu0');
});

test('where no other store trains nothing is shown', () => {
  expect(renderToStaticMarkup(<Others held={[OURS]} root="/home/me/.workbench" trans={trans} />)).toBe('');
  expect(renderToStaticMarkup(<Others held={[]} trans={trans} />)).toBe('');
});
