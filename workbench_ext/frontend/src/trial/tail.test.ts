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

test('an endless log keeps its end, and says where that starts', () => {
  const line = `${'x'.repeat(99)}\n`;
  let tail = followed(NOTHING, answer(0, line.repeat(3000)));
  tail = followed(tail, answer(300_000, line.repeat(3000)));
  expect(tail.text.length).toBeLessThanOrEqual(400_000);
  expect(tail.start + tail.text.length).toBe(600_000);
  expect(tail.text.startsWith('xxx')).toBe(true);
});
