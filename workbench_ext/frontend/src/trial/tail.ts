/** The part of a growing log read so far. Law: pure; text is never markup, and terminal colours are dropped. */

import { ILog } from '../server/api';

/** Maximum characters kept; more would make the page slow. Dropped text can be read again by its offset. */
const MOST = 400_000;

/** Escape sequences of terminals: colours, moves of the cursor, titles. */
// eslint-disable-next-line no-control-regex -- they are what is looked for
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;
/** What else a page could not show: control characters but tab and newline. */
// eslint-disable-next-line no-control-regex -- they are what is looked for
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f]/g;

export interface ITail {
  readonly text: string;
  /** The line that is being printed, which may still be redrawn. */
  readonly line: string;
  /** Bytes before the text that were not read, or were dropped. */
  readonly start: number;
  /** The offset for the next query; -1 before anything was read. */
  readonly next: number;
  readonly size: number;
}

export const NOTHING: ITail = { text: '', line: '', start: 0, next: -1, size: 0 };

/** The log with the next part. An answer that does not continue the known text replaces it. */
export function followed(tail: ITail, answer: ILog): ITail {
  const line = plain(answer.line ?? '');
  const { next, size } = answer;
  if (answer.offset !== tail.next) {
    return cut({ text: plain(answer.text), line, start: answer.offset, next, size });
  }
  return cut({ ...tail, text: tail.text + plain(answer.text), line, next, size });
}

/** The log with the part before it. */
export function preceded(tail: ITail, answer: ILog): ITail {
  return answer.next === tail.start ? { ...tail, text: plain(answer.text) + tail.text, start: answer.offset } : tail;
}

/** Printed text for display: the last version of each redrawn line, without control characters. */
export function plain(text: string): string {
  return text.replace(ESCAPES, '').split('\n').map(lastDrawn).join('\n').replace(CONTROL, '');
}

/** What a line shows at the end: the text after the last carriage return that is followed by text. By no regular
 * expression: it would read the rest of the line again from each character, and a line may have 64 kB. */
function lastDrawn(line: string): string {
  let end = line.length;
  while (line[end - 1] === '\r') {
    end -= 1;
  }
  return line.slice(line.lastIndexOf('\r', end - 1) + 1, end);
}

function cut(tail: ITail): ITail {
  if (tail.text.length <= MOST) {
    return tail;
  }
  const from = tail.text.indexOf('\n', tail.text.length - MOST) + 1;
  const dropped = new TextEncoder().encode(tail.text.slice(0, from)).length;
  return { ...tail, text: tail.text.slice(from), start: tail.start + dropped };
}
