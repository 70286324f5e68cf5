/** The labels over the ladder's columns. Law: it paints its arguments. */

import { ITheme } from '../chart/paint';
import { ILayout, IPanel } from './layout';

export interface ILadderTheme extends ITheme {
  /** Of trials that ended. */
  readonly ended: string;
  readonly faint: string;
  readonly failed: string;
  readonly warn: string;
  readonly family: string;
}

/** The labels of columns, brackets and the best trial. */
export interface IWords {
  bracket(panel: IPanel): string;
  trials(panel: IPanel): string;
  step(step: number): string;
  cut(value: number): string;
  value(value: number): string;
}

/** A bracket's name, the step of each column, its cut, and ranks where rows are uneven. */
export function paintHead(
  paper: CanvasRenderingContext2D,
  { theme, words, layout }: { theme: ILadderTheme; words: IWords; layout: ILayout },
  panel: IPanel
): void {
  const { columns, left, top, rows } = panel;
  paper.textBaseline = 'alphabetic';
  paper.textAlign = 'left';
  paper.font = `600 12px ${theme.family}`;
  paper.fillStyle = theme.text;
  const title = words.bracket(panel);
  paper.fillText(title, left - 12, top - 44);
  const wide = paper.measureText(title).width;
  paper.font = theme.font;
  paper.fillStyle = theme.muted;
  const count = words.trials(panel);
  const begins = left - 12 + wide + 8;
  const next = Math.min(...layout.panels.filter(one => one.top === top && one.left > left).map(one => one.left - 12));
  if ((columns.length > 1 || layout.panels.length === 1) && begins + paper.measureText(count).width + 8 <= next) {
    paper.fillText(count, begins, top - 44);
  }
  paper.textAlign = 'center';
  let free = -Infinity;
  columns.forEach(({ x, rung, nodes, cutY }, at) => {
    const label = at === 0 && layout.columnWidth > 40 ? words.step(rung.step) : String(rung.step);
    const half = paper.measureText(label).width / 2;
    if (x - half < free && at < columns.length - 1) {
      return;
    }
    free = x + half + 6;
    paper.fillStyle = nodes.length > 0 ? theme.text : theme.ended;
    paper.fillText(label, x, top - 24);
    if (cutY !== null && rung.cut !== null && layout.columnWidth >= 56) {
      paper.fillStyle = theme.muted;
      paper.fillText(words.cut(rung.cut), x, top - 10);
    }
  });
  // If rows get closer, ranks show how much.
  if (rows.count > 40 && rows.spacing(rows.count) < rows.spacing(0) / 1.6 && isFirst(layout, panel)) {
    paper.textAlign = 'right';
    paper.textBaseline = 'middle';
    paper.fillStyle = theme.ended;
    let last = -Infinity;
    for (const rank of ranks(rows.count)) {
      const y = top + rows.y(rank - 1);
      if (y - last >= 14) {
        paper.fillText(rank >= 1000 ? `${rank / 1000}k` : String(rank), left - 14, y);
        last = y;
      }
    }
  }
}

function isFirst({ panels }: ILayout, panel: IPanel): boolean {
  return panels.find(({ top }) => top === panel.top) === panel;
}

/** 1, 2, 5, 10, 20, 50, … */
function* ranks(most: number): Generator<number> {
  for (let decade = 1; decade <= most; decade *= 10) {
    for (const part of [1, 2, 5]) {
      if (decade * part <= most) {
        yield decade * part;
      }
    }
  }
}
