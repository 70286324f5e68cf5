jest.mock('@jupyterlab/apputils', () => ({}));
jest.mock('./dialogs', () => ({}));

import { readMore, readSpan, readUpTo, readWhole } from './goingon';

const trans = {
  __: (text: string, ...values: unknown[]) =>
    values.reduce<string>((said, one, n) => said.replace(`%${n + 1}`, String(one)), text)
} as never;

test('times are read with their unit, and nothing else is one', () => {
  expect(['90 s', '30m', '5 min', '1.5h', '2d'].map(readSpan)).toEqual([90, 1800, 300, 5400, 172800]);
  expect(['', '2', 'h', '-1h', '0h', '1e3s', '2 weeks', '9999999d'].map(readSpan)).toEqual(Array(8).fill(null));
});

test('whole numbers begin with one', () => {
  expect([' 20 ', '1', '0', '-3', '1.5', 'x', '1e3'].map(readWhole)).toEqual([20, 1, null, null, null, null, null]);
});

test('what is to be more is asked for as it was typed, or refused with what was wanted', () => {
  expect(readMore({ trials: '20', steps: '', time: '' }, trans)).toEqual({ trials: 20 });
  expect(readMore({ trials: '', steps: '81', time: '2h' }, trans)).toEqual({ last: 81, seconds: 7200 });
  expect(readMore({ trials: ' ', steps: '', time: '' }, trans)).toMatch(/Enter more/);
  expect(readMore({ trials: 'many', steps: '', time: '' }, trans)).toBe(
    'many was given; expected a whole number, such as 20.'
  );
  expect(readMore({ trials: '1', steps: '', time: '2' }, trans)).toBe(
    '2 was given; expected a time, such as 30m or 2h.'
  );
});

test('a check goes to a step that the trial has trained', () => {
  expect(readUpTo('', 9, trans)).toEqual({ step: null });
  expect(readUpTo('9', 9, trans)).toEqual({ step: 9 });
  expect(readUpTo('10', 9, trans)).toBe('10 was given; expected a step from 1 to 9.');
  expect(readUpTo('0', null, trans)).toBe('0 was given; expected a step from 1 on.');
});
