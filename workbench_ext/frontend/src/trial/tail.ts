/** A log that grows, as far as it was read. Law: pure; text is text, and terminal colours are dropped. */

import { ILog } from '../server/api';

/** Characters that are kept; more would make the page slow. What is dropped can be read again by its offset. */
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
  /** Bytes before the text that were not read or were dropped. */
  readonly start: number;
  /** What to ask with for what follows; -1 before anything was read. */
  readonly next: number;
  readonly size: number;
}

export const NOTHING: ITail = { text: '', line: '', start: 0, next: -1, size: 0 };

/** The log with what came next. An answer that does not follow what is known begins anew. */
export function followed(tail: ITail, answer: ILog): ITail {
  const line = plain(answer.line ?? '');
  const { next, size } = answer;
  if (answer.offset !== tail.next) {
    return cut({ text: plain(answer.text), line, start: answer.offset, next, size });
  }
  return cut({ ...tail, text: tail.text + plain(answer.text), line, next, size });
}

/** The log with what came before it. */
export function preceded(tail: ITail, answer: ILog): ITail {
  return answer.next === tail.start ? { ...tail, text: plain(answer.text) + tail.text, start: answer.offset } : tail;
}

/** What a person reads of printed text: the last of what a line was redrawn with, and nothing that acts. */
export function plain(text: string): string {
  return text
    .replace(ESCAPES, '')
    .replace(/\r+\n/g, '\n')
    .replace(/[^\n]*\r(?=[^\n])/g, '')
    .replace(CONTROL, '');
}

function cut(tail: ITail): ITail {
  if (tail.text.length <= MOST) {
    return tail;
  }
  const from = tail.text.indexOf('\n', tail.text.length - MOST) + 1;
  const dropped = new TextEncoder().encode(tail.text.slice(0, from)).length;
  return { ...tail, text: tail.text.slice(from), start: tail.start + dropped };
}
