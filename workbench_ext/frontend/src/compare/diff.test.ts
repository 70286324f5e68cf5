import { DiffLine } from '../server/api';
import { folded, sideBySide } from './diff';

const DIFF: DiffLine[] = [
  [' ', 'a'],
  ['-', 'lr = 0.01'],
  ['-', 'x'],
  ['+', 'lr = 0.02'],
  [' ', 'b'],
  ['+', 'c']
];

test('what was taken away stands beside what came in its place, with its own line numbers', () => {
  expect(sideBySide(DIFF)).toEqual([
    { a: { n: 1, text: 'a' }, b: { n: 1, text: 'a' }, changed: false },
    { a: { n: 2, text: 'lr = 0.01' }, b: { n: 2, text: 'lr = 0.02' }, changed: true },
    { a: { n: 3, text: 'x' }, b: null, changed: true },
    { a: { n: 4, text: 'b' }, b: { n: 3, text: 'b' }, changed: false },
    { a: null, b: { n: 4, text: 'c' }, changed: true }
  ]);
});

test('long unchanged parts are folded, and nothing is lost in the count', () => {
  const same: DiffLine[] = Array.from({ length: 20 }, (_, k) => [' ', `${k}`]);
  const rows = sideBySide([...same, ['+', 'new'], ...same]);
  const parts = folded(rows);
  expect(parts.map(part => (typeof part === 'number' ? part : '·'))).toEqual([17, ...'·······', 17]);
});
