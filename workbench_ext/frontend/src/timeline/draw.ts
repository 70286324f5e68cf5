/** The timeline on a canvas. Law: it paints its arguments. */

import { ITheme, fitting } from '../chart/paint';
import { stateColour } from '../chart/colours';
import { IBar, ITimes, ROOM, Span, ticks } from './layout';

export interface ITimeline {
  readonly times: ITimes;
  readonly span: Span;
  readonly now: number;
  readonly theme: ITheme;
  readonly width: number;
  readonly height: number;
  readonly rowHeight: number;
  readonly scroll: number;
  readonly lit: ReadonlySet<number>;
  readonly focus: IBar | null;
  slot(row: number): string;
}

/** Signs of incidents; each has a word in the legend. */
export const SIGNS = { failed: '✕', died: '↯', stopped: '■', retried: '↻', moved: '⇄' } as const;

/** The colour of a bar: how its leg ended. */
export function barColour(outcome: string | null): string {
  switch (outcome) {
    case null:
      return stateColour('running');
    case 'completed':
      return stateColour('completed');
    case 'failed':
      return stateColour('failed');
    case 'died':
      return stateColour('stopping');
    case 'stopped':
      return stateColour('stopped');
    default:
      return '#6f9bc8';
  }
}

/** Pixels from the left for a time. */
export function xOf({ span, width }: Pick<ITimeline, 'span' | 'width'>, time: number): number {
  const [from, to] = span;
  return ROOM.left + ((time - from) / Math.max(to - from, 1e-9)) * (width - ROOM.left - ROOM.right);
}

/** The time at so many pixels from the left. */
export function timeAt({ span, width }: Pick<ITimeline, 'span' | 'width'>, x: number): number {
  const [from, to] = span;
  return from + ((x - ROOM.left) / (width - ROOM.left - ROOM.right)) * (to - from);
}

export function paintTimeline(paper: CanvasRenderingContext2D, picture: ITimeline): void {
  const { times, theme, width, height, rowHeight, scroll } = picture;
  const right = width - ROOM.right;
  paper.font = theme.font;
  paper.lineWidth = 1;
  paper.textBaseline = 'middle';
  paper.strokeStyle = theme.grid;
  paper.fillStyle = theme.muted;
  paper.textAlign = 'center';
  for (const { at, label } of ticks(picture.span, times.first, right - ROOM.left)) {
    const x = Math.round(xOf(picture, at)) + 0.5;
    if (x >= ROOM.left) {
      paper.beginPath();
      paper.moveTo(x, ROOM.top - 6);
      paper.lineTo(x, height);
      paper.stroke();
      paper.fillText(label, x, 14);
    }
  }
  paper.save();
  paper.beginPath();
  paper.rect(0, ROOM.top - 6, width, height);
  paper.clip();
  times.rows.forEach((bars, row) => {
    const top = ROOM.top + row * rowHeight - scroll;
    if (top + rowHeight < 0 || top > height) {
      return;
    }
    paper.textAlign = 'right';
    paper.fillStyle = theme.muted;
    paper.fillText(fitting(paper, picture.slot(row), ROOM.left - 18), ROOM.left - 12, top + rowHeight / 2);
    paper.save();
    paper.beginPath();
    paper.rect(ROOM.left - 1, ROOM.top - 6, right - ROOM.left + 8, height);
    paper.clip();
    paintRow(paper, picture, bars, top);
    paper.restore();
  });
  if (times.training) {
    const x = xOf(picture, picture.now);
    if (x >= ROOM.left && x <= right + 4) {
      paper.strokeStyle = theme.brand;
      paper.lineWidth = 1.5;
      paper.beginPath();
      paper.moveTo(x, ROOM.top - 4);
      paper.lineTo(x, height);
      paper.stroke();
    }
  }
  paper.restore();
}

function paintRow(paper: CanvasRenderingContext2D, picture: ITimeline, bars: readonly IBar[], top: number): void {
  const { theme, rowHeight, span, now, lit, focus } = picture;
  const high = Math.max(8, rowHeight * 0.7);
  const y = top + (rowHeight - high) / 2;
  let drawn = -Infinity;
  for (const bar of bars) {
    const to = bar.to ?? Math.max(now, bar.from);
    if (to < span[0] || bar.from > span[1]) {
      continue;
    }
    const x = xOf(picture, bar.from);
    const wide = Math.max(xOf(picture, to) - x, 1.5);
    const isLit = lit.has(bar.leg.trial);
    if (x + wide < drawn + 0.5 && !isLit) {
      continue; // another one has this pixel
    }
    drawn = x + wide;
    paper.globalAlpha = lit.size === 0 || isLit ? 1 : 0.3;
    paper.fillStyle = barColour(bar.leg.outcome);
    // A thin gap separates consecutive legs.
    const shown = wide > 4 ? wide - 1 : wide;
    paper.beginPath();
    paper.roundRect(x, y, shown, high, Math.min(3, shown / 2));
    paper.fill();
    if (isLit || bar === focus) {
      paper.lineWidth = bar === focus ? 2.5 : 1.5;
      paper.strokeStyle = bar === focus ? theme.text : theme.brand;
      paper.stroke();
    }
    paintWords(paper, picture, bar, x, y, shown, high);
  }
  paper.globalAlpha = 1;
}

/** The trial's label and the signs, if there is space. */
function paintWords(
  paper: CanvasRenderingContext2D,
  { theme }: ITimeline,
  { leg, begin, end }: IBar,
  x: number,
  y: number,
  wide: number,
  high: number
): void {
  const middle = y + high / 2 + 0.5;
  let [left, right] = [x + 5, x + wide - 4];
  paper.font = `11px ${theme.font.replace(/^\S+ /, '')}`;
  paper.fillStyle = '#ffffff';
  if (begin && wide > 16) {
    paper.textAlign = 'left';
    paper.fillText(SIGNS[begin], left, middle);
    left += 14;
  }
  if (end && wide > (begin ? 32 : 14)) {
    paper.textAlign = 'right';
    paper.fillText(SIGNS[end], right, middle);
    right -= 14;
  }
  if (right - left > paper.measureText(leg.label).width) {
    paper.textAlign = 'left';
    paper.fillText(leg.label, left, middle);
  }
  paper.font = theme.font;
  if ((end === 'failed' || end === 'died') && wide <= 14) {
    // Too short for its sign: draw a dot above.
    paper.fillStyle = barColour(leg.outcome);
    paper.beginPath();
    paper.arc(x + wide / 2, y - 2.5, 2, 0, 2 * Math.PI);
    paper.fill();
  }
}
