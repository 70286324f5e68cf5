/** @jest-environment node */

import { ILog } from '../server/api';
import { NOTHING, followed, plain, preceded } from './tail';

const answer = (offset: number, text: string, more: Partial<ILog> = {}): ILog => ({
  offset,
  text,
  next: offset + text.length,
  size: offset + text.length,
  line: '',
  ...more
});

test('what follows is added, each line once, and the line being printed is replaced', () => {
  let tail = followed(NOTHING, answer(100, 'a\nb\n', { line: '10 %' }));
  expect(tail).toMatchObject({ text: 'a\nb\n', line: '10 %', start: 100, next: 104 });
  tail = followed(tail, answer(104, '', { line: '50 %' }));
  tail = followed(tail, answer(104, 'done\n', { line: '' }));
  expect(tail).toMatchObject({ text: 'a\nb\ndone\n', line: '', next: 109 });
});

test('a log that began anew is read anew, and what came before is put before', () => {
  const tail = followed(NOTHING, answer(100, 'b\n'));
  expect(followed(tail, answer(0, 'new\n')).text).toBe('new\n');
  expect(preceded(tail, answer(98, 'a\n'))).toMatchObject({ text: 'a\nb\n', start: 98 });
  expect(preceded(tail, answer(50, 'x\n'))).toBe(tail);
});

test('terminal colours, moves, titles and control characters are dropped; text stays text', () => {
  expect(plain('\u001b[1;31mred\u001b[0m \u001b]0;title\u0007\u001b[2Kx\u0000\u0008y')).toBe('red xy');
  expect(plain('10 %\r50 %\r100 %\nnext\r\n')).toBe('100 %\nnext\n');
  expect(plain('<img src=x onerror=alert(1)>')).toBe('<img src=x onerror=alert(1)>');
});

test('of each line the last version is shown, also where it ends with carriage returns', () => {
  expect(plain('a\rb\rc')).toBe('c');
  expect(plain('a\r\rb\r\r\nc\r')).toBe('b\nc');
  expect(plain('a\u2028b\rc\n\r\n\r')).toBe('c\n\n');
  expect(plain('10 %\r\r')).toBe('10 %');
});

test('the last versions are those that regular expressions find', () => {
  const found = (text: string) =>
    text
      .replace(/\r+\n/g, '\n')
      .replace(/[^\n]*\r(?=[^\n])/g, '')
      .replace(/\r/g, '');
  const letters = ['\r', '\n', 'a', 'b', '\u2028'];
  // All texts of six letters. Expressions lose an unfinished line that ends with two carriage returns.
  for (let number = 0; number < letters.length ** 6; number++) {
    const places = Array.from({ length: 6 }, (_, place) => Math.floor(number / letters.length ** place));
    const text = `${places.map(place => letters[place % letters.length]).join('')}\n`;
    if (plain(text) !== found(text)) {
      throw new Error(`${JSON.stringify(text)}: ${JSON.stringify(plain(text))}, not ${JSON.stringify(found(text))}`);
    }
  }
});

test.each([
  ['a long line', 'x'.repeat(1 << 17)],
  ['many carriage returns', `${'\r'.repeat(1 << 17)}x`],
  ['many line separators', '\u2028'.repeat(1 << 17)],
  ['an escape sequence without an end', `\u001b[${'1'.repeat(1 << 17)}`]
])('%s takes no time', (_, text) => {
  const begun = performance.now();
  plain(text);
  // In quadratic time each takes ten seconds.
  expect(performance.now() - begun).toBeLessThan(2000);
});

test('an endless log keeps its end, and says where that starts', () => {
  const line = `${'x'.repeat(99)}\n`;
  let tail = followed(NOTHING, answer(0, line.repeat(3000)));
  tail = followed(tail, answer(300_000, line.repeat(3000)));
  expect(tail.text.length).toBeLessThanOrEqual(400_000);
  expect(tail.start + tail.text.length).toBe(600_000);
  expect(tail.text.startsWith('xxx')).toBe(true);
});
