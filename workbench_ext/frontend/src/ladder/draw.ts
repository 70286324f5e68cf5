/** The ladder on a canvas. Law: it paints its arguments; it does not depend on model, pointer or page, except for
 * colours. */

import { share, spread, viridis, visible } from '../chart/colours';
import { Fate, ILadder } from './data';
import { ILadderTheme, IWords, paintHead } from './head';
import { EDGE, ILayout, INode, IPanel, STROKES } from './layout';

export interface IPainting {
  readonly layout: ILayout;
  readonly ladder: ILadder;
  readonly theme: ILadderTheme;
  /** The labels of columns and brackets. */
  readonly words: IWords;
  /** Worst and best value of the colour scale. */
  readonly ends: readonly [number, number] | null;
  /** The position of the canvas' upper left corner in the visible part. */
  readonly scroll: { readonly left: number; readonly top: number };
  readonly size: { readonly width: number; readonly height: number };
  /** The present position of a node, which moves while ranks change. */
  at(node: INode): { readonly x: number; readonly y: number; readonly shown: number };
  /** How far a trial that trains is from one rung to the next, 0 to 1. */
  progress(node: INode): number;
}

/** Worst and best of the values at levels, for colours. */
export function valueEnds(ladder: ILadder): [number, number] | null {
  const values: number[] = [];
  for (const { rungs } of ladder.brackets) {
    for (const { entries } of rungs) {
      for (const { value } of entries) {
        if (typeof value === 'number') {
          values.push(value);
        }
      }
    }
  }
  return spread(values, ladder.goal.mode);
}

/** Paint everything except what follows the pointer. */
export function paintLadder(paper: CanvasRenderingContext2D, painting: IPainting): void {
  const { layout, scroll } = painting;
  paper.save();
  paper.translate(-scroll.left, -scroll.top);
  paper.lineCap = 'round';
  for (const panel of seen(painting)) {
    paintPlaces(paper, painting, panel);
    paintLinks(paper, painting, panel);
    paintCuts(paper, painting, panel);
    paintNodes(paper, painting, panel);
  }
  if (layout.count > 0) {
    paintBest(paper, painting);
  }
  paper.restore();
}

/** Paint the labels over columns, and the highlighted and selected trials over all others. */
export function paintTrials(
  paper: CanvasRenderingContext2D,
  painting: IPainting,
  trials: Iterable<number>,
  focus: INode | null
): void {
  const { layout, scroll, theme } = painting;
  paper.save();
  paper.translate(-scroll.left, -scroll.top);
  paper.lineCap = 'round';
  for (const panel of seen(painting)) {
    paintHead(paper, painting, panel);
  }
  for (const trial of trials) {
    const nodes = layout.trials.get(trial) ?? [];
    for (const node of nodes) {
      if (node.before) {
        const width = lineWidth(node) + 1.2;
        link(paper, painting, node, width + 2.5, theme.page);
        link(paper, painting, node, width, null);
      }
    }
    for (const node of nodes) {
      const { x, y } = painting.at(node);
      paper.beginPath();
      paper.arc(x, y, Math.max(radius(node), 3.5) + 2.5, 0, 2 * Math.PI);
      paper.fillStyle = theme.page;
      paper.fill();
      paper.lineWidth = 1.75;
      paper.strokeStyle = theme.brand;
      paper.stroke();
      mark(paper, painting, node, Math.max(radius(node), 3.2));
    }
  }
  if (focus) {
    const { x, y } = painting.at(focus);
    paper.beginPath();
    paper.arc(x, y, Math.max(radius(focus), 3.5) + 6, 0, 2 * Math.PI);
    paper.lineWidth = 1.5;
    paper.setLineDash([2.5, 3]);
    paper.strokeStyle = theme.text;
    paper.stroke();
  }
  paper.restore();
}

/** The colour of a value at a level. */
export function colourOf(
  value: number | null | string,
  ends: readonly [number, number] | null,
  dark: boolean
): string | null {
  return typeof value === 'number' && ends ? viridis(visible(share(value, ends), dark)) : null;
}

function* seen({ layout, scroll, size }: IPainting): Generator<IPanel> {
  for (const panel of layout.panels) {
    const bottom = panel.top + panel.rows.height;
    const isSeen =
      bottom + EDGE.foot >= scroll.top &&
      panel.top - EDGE.head <= scroll.top + size.height &&
      panel.right + EDGE.right >= scroll.left &&
      panel.left - EDGE.left <= scroll.left + size.width;
    if (isSeen) {
      yield panel;
    }
  }
}

/** Planned places that are still empty. */
function paintPlaces(paper: CanvasRenderingContext2D, { theme }: IPainting, panel: IPanel): void {
  paper.fillStyle = theme.faint;
  for (const { x, free } of panel.columns) {
    let last = -Infinity;
    for (let row = free[0]; row < free[1]; row++) {
      const y = panel.top + panel.rows.y(row);
      if (y - last >= 1.2) {
        const size = panel.rows.spacing(row) < STROKES ? 0.6 : 1.2;
        paper.beginPath();
        paper.arc(x, y, size, 0, 2 * Math.PI);
        paper.fill();
        last = y;
      }
    }
  }
}

function paintLinks(paper: CanvasRenderingContext2D, painting: IPainting, panel: IPanel): void {
  for (const { nodes } of panel.columns) {
    // The best is painted last: over all others.
    for (let at = nodes.length - 1; at >= 0; at--) {
      const node = nodes[at]!;
      if (node.before && painting.at(node).shown > 0) {
        const crowd = Math.min(1, Math.max(0.25, 120 / nodes.length));
        paper.globalAlpha = painting.at(node).shown * (node.entry.value === null ? 0.55 : 0.35 + 0.65 * crowd);
        link(paper, painting, node, lineWidth(node), null);
      }
    }
  }
  paper.globalAlpha = 1;
}

/** The line by which a trial came to a node. */
function link(
  paper: CanvasRenderingContext2D,
  painting: IPainting,
  node: INode,
  width: number,
  colour: string | null
): void {
  const { ends, theme } = painting;
  const [from, to] = [painting.at(node.before!), painting.at(node)];
  const bend = (to.x - from.x) * 0.5;
  paper.beginPath();
  paper.moveTo(from.x, from.y);
  paper.bezierCurveTo(from.x + bend, from.y, to.x - bend, to.y, to.x, to.y);
  paper.lineWidth = width;
  const before = colourOf(node.before!.entry.value, ends, theme.dark) ?? theme.ended;
  const after = colourOf(node.entry.value, ends, theme.dark);
  if (colour !== null || after === null || node.spacing < STROKES) {
    paper.strokeStyle = colour ?? after ?? before;
  } else {
    const gradient = paper.createLinearGradient(from.x, 0, to.x, 0);
    gradient.addColorStop(0.1, before);
    gradient.addColorStop(0.9, after);
    paper.strokeStyle = gradient;
  }
  paper.stroke();
}

function lineWidth({ height, spacing }: INode): number {
  return Math.max(0.6, Math.min(1.1 + 0.55 * height, 3.4, spacing * 0.34));
}

function paintCuts(paper: CanvasRenderingContext2D, { theme, layout }: IPainting, panel: IPanel): void {
  const half = Math.min(layout.columnWidth * 0.3, 16);
  paper.strokeStyle = theme.muted;
  paper.lineWidth = 1.2;
  paper.setLineDash([3, 2.5]);
  for (const { x, cutY } of panel.columns) {
    if (cutY !== null) {
      paper.beginPath();
      paper.moveTo(x - half, cutY);
      paper.lineTo(x + half, cutY);
      paper.stroke();
    }
  }
  paper.setLineDash([]);
}

/** The stacking order of marks: ended trials below continuing ones. */
const LAYERS: readonly ReadonlySet<Fate>[] = [
  new Set<Fate>(['stopped', 'failed']),
  new Set<Fate>(['on', 'completed']),
  new Set<Fate>(['training', 'waiting', 'lost'])
];

function paintNodes(paper: CanvasRenderingContext2D, painting: IPainting, panel: IPanel): void {
  for (const { nodes } of panel.columns) {
    for (const layer of LAYERS) {
      let last = -Infinity;
      for (const node of nodes) {
        if (!layer.has(node.entry.fate)) {
          continue;
        }
        const { x, y, shown } = painting.at(node);
        if (node.spacing >= STROKES) {
          paper.globalAlpha = shown;
          mark(paper, painting, node, radius(node));
        } else if (y - last >= 0.7) {
          // Too many for marks: a stroke for each that has its own pixels on the screen.
          paper.globalAlpha = shown;
          const isOver = node.entry.fate === 'stopped' || node.entry.fate === 'failed';
          const half = isOver ? 2.4 : 3.6;
          paper.fillStyle = filling(painting, node);
          paper.fillRect(x - half, y - 0.5, 2 * half, Math.max(1, node.spacing));
          last = y;
        }
      }
    }
  }
  paper.globalAlpha = 1;
}

function filling({ ends, theme }: IPainting, { entry, before }: INode): string {
  switch (entry.fate) {
    case 'stopped':
      return theme.ended;
    case 'failed':
      return theme.failed;
    case 'lost':
      return theme.warn;
    default:
      return (
        colourOf(entry.value, ends, theme.dark) ??
        colourOf(before?.entry.value ?? null, ends, theme.dark) ??
        theme.muted
      );
  }
}

function radius({ height, spacing, entry }: INode): number {
  const ended = entry.fate === 'stopped' || entry.fate === 'failed';
  const size = ended ? 2.6 : 3.2 + 0.5 * Math.min(height, 5);
  return Math.max(0.8, Math.min(size, spacing * (ended ? 0.34 : 0.45), 6));
}

/** Each fate has its own shape, so that colour is not needed to distinguish them. */
function mark(paper: CanvasRenderingContext2D, painting: IPainting, node: INode, size: number): void {
  const { theme } = painting;
  const { x, y } = painting.at(node);
  const { fate, value } = node.entry;
  const colour = filling(painting, node);
  const circle = (radius: number) => {
    paper.beginPath();
    paper.arc(x, y, radius, 0, 2 * Math.PI);
  };
  if (fate === 'failed') {
    paper.strokeStyle = colour;
    paper.lineWidth = Math.max(1, size * 0.55);
    paper.beginPath();
    paper.moveTo(x - size, y - size);
    paper.lineTo(x + size, y + size);
    paper.moveTo(x + size, y - size);
    paper.lineTo(x - size, y + size);
    paper.stroke();
  } else if (fate === 'training' || fate === 'lost' || (fate === 'waiting' && value === null)) {
    const ring = Math.max(size, 2.4);
    circle(ring);
    paper.fillStyle = theme.page;
    paper.fill();
    paper.lineWidth = 1.1;
    paper.strokeStyle = fate === 'training' ? colour : theme.ended;
    if (fate !== 'training') {
      paper.setLineDash([1.5, 1.8]);
      paper.strokeStyle = colour;
    }
    paper.stroke();
    paper.setLineDash([]);
    const done = fate === 'training' ? painting.progress(node) : 0;
    if (done > 0) {
      paper.beginPath();
      paper.arc(x, y, ring, -Math.PI / 2, -Math.PI / 2 + 2 * Math.PI * Math.min(done, 1));
      paper.lineWidth = Math.max(2.4, ring * 0.6);
      paper.stroke();
    }
  } else {
    circle(size);
    paper.fillStyle = colour;
    paper.fill();
    if (fate === 'waiting') {
      // Has a value, but is not compared yet.
      paper.lineWidth = 1;
      paper.strokeStyle = theme.page;
      circle(Math.max(size - 1.4, 0.6));
      paper.stroke();
    }
  }
}

/** The best value at the highest level, written beside its mark. */
function paintBest(paper: CanvasRenderingContext2D, painting: IPainting): void {
  const { ladder, layout, theme, words } = painting;
  const best = ladder.best;
  const nodes = best ? (layout.trials.get(best.trial) ?? []) : [];
  const node = nodes.filter(({ entry }) => entry.value !== null).pop();
  if (!best || !node) {
    return;
  }
  const { x, y } = painting.at(node);
  const size = Math.max(radius(node), 3.5) + 1.5;
  paper.beginPath();
  paper.arc(x, y, size, 0, 2 * Math.PI);
  paper.fillStyle = filling(painting, node);
  paper.fill();
  paper.lineWidth = 1;
  paper.strokeStyle = theme.page;
  paper.stroke();
  paper.font = `600 12px ${theme.family}`;
  paper.textAlign = 'left';
  paper.textBaseline = 'middle';
  const label = words.value(best.value);
  // A line that goes on to the right must not run through it.
  const under = nodes[nodes.length - 1] !== node;
  const [left, middle] = under ? [x + 4, y - size - 8] : [x + size + 6, y];
  paper.lineWidth = 4;
  paper.lineJoin = 'round';
  paper.strokeStyle = theme.page;
  paper.strokeText(label, left, middle);
  paper.fillStyle = theme.text;
  paper.fillText(label, left, middle);
}
