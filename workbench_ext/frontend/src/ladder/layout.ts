/** The layout of the ladder's picture. Law: pure; pixels in, pixels out.
 *
 * Brackets are side by side, and rounds of Hyperband below each other. A column is a level, a row a rank. If there are
 * more ranks than space, lower rows are closer together, so that the top stays readable.
 */

import { IBracket, IEntry, ILadder, IRung } from './data';

/** Pixels around and between. */
export const EDGE = { left: 46, right: 104, head: 64, foot: 14, gap: 74 };
/** The minimum and maximum height of the top row. */
const ROW = { least: 11, most: 23 };
const COLUMN = { least: 10, most: 132 };
/** A round of several is at least this high. */
const ROUND = 230;
/** Below this many pixels between two rows marks become strokes. */
export const STROKES = 2.2;

/** The position of ranks below the top, and their distance there. */
export interface IRows {
  readonly count: number;
  readonly height: number;
  y(row: number): number;
  spacing(row: number): number;
}

export interface INode {
  readonly key: string;
  readonly panel: number;
  readonly column: number;
  /** How high the level is among all levels of the search: 0 to 4. */
  readonly height: number;
  readonly row: number;
  readonly entry: IEntry;
  readonly x: number;
  readonly y: number;
  readonly spacing: number;
  /** The previous node: the trial's entry one rung below. */
  readonly before: INode | null;
}

export interface IColumn {
  readonly x: number;
  readonly rung: IRung;
  /** From the top down. */
  readonly nodes: readonly INode[];
  /** Rows of planned places that are still empty. */
  readonly free: readonly [number, number];
  /** The position of the cut; null if no trial was cut. */
  readonly cutY: number | null;
}

/** One bracket. */
export interface IPanel {
  readonly bracket: IBracket;
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly rows: IRows;
  readonly columns: readonly IColumn[];
}

export interface ILayout {
  readonly width: number;
  readonly height: number;
  readonly columnWidth: number;
  readonly panels: readonly IPanel[];
  /** Each trial's nodes, the lowest rung first. */
  readonly trials: ReadonlyMap<number, readonly INode[]>;
  readonly count: number;
}

/** `count` rows in `height` pixels. */
export function rows(count: number, height: number): IRows {
  const even = height / Math.max(count, 1);
  if (even >= ROW.least) {
    const spacing = Math.min(even, ROW.most);
    return {
      count,
      height: spacing * count,
      y: row => (row + 0.5) * spacing,
      spacing: () => spacing
    };
  }
  // y = least · b · ln(1 + row / b): the first rows are `least` apart, and b is such that all of them fit.
  const end = (b: number) => ROW.least * b * Math.log1p(count / b);
  let [low, high] = [1e-3, count * 10];
  for (let turn = 0; turn < 60; turn++) {
    const middle = (low + high) / 2;
    if (end(middle) > height) {
      high = middle;
    } else {
      low = middle;
    }
  }
  const y = (row: number) => ROW.least * low * Math.log1p((row + 0.5) / low);
  return { count, height, y, spacing: row => (ROW.least * low) / (low + row) };
}

/** The whole picture for a page of `width` by `height` pixels; it may come out larger than that. */
export function layout(ladder: ILadder, width: number, height: number): ILayout {
  const turns = [...new Set(ladder.brackets.map(({ turn }) => turn))].sort((a, b) => a - b);
  const rounds = turns.map(turn => ladder.brackets.filter(one => one.turn === turn));
  const columnWidth = Math.min(...rounds.map(round => columns(round, width)), COLUMN.most);
  const roundHeight = Math.max(
    turns.length > 1 ? ROUND : 0,
    Math.floor(height / Math.max(turns.length, 1)),
    EDGE.head + EDGE.foot + 60
  );
  const steps = ladder.brackets.flatMap(({ rungs }) => rungs.map(({ step }) => step));
  const levels = [...new Set(steps)].sort((a, b) => a - b);
  const panels: IPanel[] = [];
  const trials = new Map<number, INode[]>();
  let [wide, count] = [0, 0];
  rounds.forEach((round, at) => {
    const top = at * roundHeight + EDGE.head;
    const most = Math.max(1, ...round.flatMap(({ rungs }) => rungs.map(taken)));
    const fitting = rows(most, roundHeight - EDGE.head - EDGE.foot);
    let left = EDGE.left;
    for (const bracket of round) {
      const panel = place(bracket, panels.length, left, top, columnWidth, fitting, levels, trials);
      panels.push(panel);
      count += panel.columns.reduce((sum, { nodes }) => sum + nodes.length, 0);
      left = panel.right + EDGE.gap;
    }
    wide = Math.max(wide, left - EDGE.gap + EDGE.right);
  });
  return {
    width: Math.max(wide, 0),
    height: roundHeight * turns.length,
    columnWidth,
    panels,
    trials,
    count
  };
}

/** The nearest node, if one is near the place. */
export function nearest({ panels, columnWidth }: ILayout, x: number, y: number): INode | null {
  let best: INode | null = null;
  let least = Infinity;
  const reach = Math.max(columnWidth / 2, 8);
  for (const { columns, top, rows, left, right } of panels) {
    if (x < left - reach || x > right + reach || y < top - 12 || y > top + rows.height + 12) {
      continue;
    }
    for (const column of columns) {
      const node = Math.abs(column.x - x) <= reach ? nearestIn(column.nodes, y) : null;
      if (node) {
        const apart = Math.hypot((node.x - x) * 0.5, node.y - y);
        if (apart < least) {
          [best, least] = [node, apart];
        }
      }
    }
  }
  return least <= 26 ? best : null;
}

/** The node of a column nearest to a height. */
export function nearestIn(nodes: readonly INode[], y: number): INode | null {
  let [low, high] = [0, nodes.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (nodes[middle]!.y < y) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const [node, above] = [nodes[low], nodes[low - 1]];
  return node && above && y - above.y < node.y - y ? above : (node ?? null);
}

/** The next node for an arrow key. */
export function step({ panels, trials }: ILayout, from: INode, key: string): INode | null {
  const panel = panels[from.panel]!;
  const { nodes } = panel.columns[from.column]!;
  const at = nodes.indexOf(from);
  switch (key) {
    case 'ArrowUp':
      return nodes[at - 1] ?? null;
    case 'ArrowDown':
      return nodes[at + 1] ?? null;
    case 'Home':
      return nodes[0] ?? null;
    case 'End':
      return nodes[nodes.length - 1] ?? null;
    case 'PageUp':
      return nodes[Math.max(at - 10, 0)] ?? null;
    case 'PageDown':
      return nodes[Math.min(at + 10, nodes.length - 1)] ?? null;
    case 'ArrowRight':
    case 'ArrowLeft': {
      // Along the trial's own line first; where it ends, to the column beside at the same height.
      const own = trials.get(from.entry.trial) ?? [];
      const forth = key === 'ArrowRight' ? 1 : -1;
      const next = own[own.indexOf(from) + forth];
      if (next) {
        return next;
      }
      const all = panels.flatMap(({ columns }) => columns).filter(one => one.nodes.length > 0);
      const beside = all[all.indexOf(panel.columns[from.column]!) + forth];
      return beside ? nearestIn(beside.nodes, from.y) : null;
    }
    default:
      return null;
  }
}

function columns(round: readonly IBracket[], width: number): number {
  const between = round.reduce((sum, { rungs }) => sum + Math.max(rungs.length - 1, 0), 0);
  const room = width - EDGE.left - EDGE.right - (round.length - 1) * EDGE.gap;
  return Math.max(COLUMN.least, room / Math.max(between, 1));
}

function taken({ places, entries }: IRung): number {
  return Math.max(places ?? 0, entries.length);
}

function place(
  bracket: IBracket,
  panel: number,
  left: number,
  top: number,
  columnWidth: number,
  rows: IRows,
  levels: readonly number[],
  trials: Map<number, INode[]>
): IPanel {
  const columns = bracket.rungs.map((rung, column): IColumn => {
    const x = left + column * columnWidth;
    const height = levels.indexOf(rung.step) * Math.min(1, 4 / Math.max(levels.length - 1, 1));
    const nodes = inRows(rung.entries).map((entry, row): INode => {
      const own = trials.get(entry.trial) ?? [];
      const key = `${panel}:${rung.step}:${entry.trial}`;
      const before = own[own.length - 1] ?? null;
      const [y, spacing] = [top + rows.y(row), rows.spacing(row)];
      const node = { key, panel, column, height, row, entry, x, y, spacing, before };
      trials.set(entry.trial, own);
      own.push(node);
      return node;
    });
    const { going, cut } = rung;
    const cutY = cut === null ? null : top + (rows.y(going - 1) + rows.y(going)) / 2;
    return { x, rung, nodes, cutY, free: [nodes.length, rung.places ?? 0] };
  });
  const right = left + Math.max(columns.length - 1, 0) * columnWidth;
  return { bracket, left, right, top, rows, columns };
}

/** By rank; then training and waiting trials; those that ended without a value last. */
function inRows(entries: readonly IEntry[]): readonly IEntry[] {
  const ended = ({ fate, rank }: IEntry) => (rank === null && (fate === 'failed' || fate === 'stopped') ? 1 : 0);
  return entries.some(ended) ? [...entries].sort((a, b) => ended(a) - ended(b)) : entries;
}
