/** Two canvases with a ladder: one with all of it, one with marks that follow the pointer. Law: it paints, and fetches
 * nothing.
 *
 * When ranks change, marks move to their new places; a new mark starts at the rung below. There is no motion if the
 * user prefers reduced motion.
 */

import { cleared, theme } from '../chart/paint';
import { ILadder } from './data';
import { IPainting, paintLadder, paintTrials, valueEnds } from './draw';
import { ILadderTheme, IWords } from './head';
import { ILayout, INode } from './layout';

/** Milliseconds for a mark's movement. */
const MOVING = 500;
/** With more marks than this, there is no movement: a frame would take too long. */
const MOST_MOVED = 4000;

interface IPlace {
  readonly x: number;
  readonly y: number;
  readonly shown: number;
}

export class LadderStage {
  constructor(
    private _base: HTMLCanvasElement,
    private _over: HTMLCanvasElement,
    private _words: IWords,
    private _progress: (node: INode) => number
  ) {}

  /** Show a ladder; if it was shown before, marks move. */
  show(ladder: ILadder, layout: ILayout, width: number, height: number): void {
    const resized = width !== this._size.width || height !== this._size.height;
    const before = this._painting?.layout;
    if (before && !resized && before !== layout && layout.count <= MOST_MOVED && !still()) {
      const now = new Map<string, IPlace>();
      for (const nodes of before.trials.values()) {
        for (const node of nodes) {
          now.set(node.key, this._at(node));
        }
      }
      this._from = now;
      this._began = performance.now();
    } else if (before !== layout) {
      this._from = null;
    }
    this._size = { width, height };
    this._painting = {
      ladder,
      layout,
      theme: this._theme ?? (this._theme = ladderTheme()),
      words: this._words,
      ends: valueEnds(ladder),
      scroll: this._scroll,
      size: this._size,
      at: node => this._at(node),
      progress: this._progress
    };
    this.paint();
  }

  /** The theme changed: read its colours again. */
  restyle(): void {
    this._theme = null;
    if (this._painting) {
      this._painting = { ...this._painting, theme: (this._theme = ladderTheme()) };
      this.paint();
    }
  }

  scrolled(left: number, top: number): void {
    this._scroll = { left, top };
    if (this._painting) {
      this._painting = { ...this._painting, scroll: this._scroll };
      this.paint();
    }
  }

  /** Highlighted trials, painted on top, and the mark with the keyboard focus. */
  point(trials: readonly number[], focus: INode | null): void {
    this._pointed = trials;
    this._focus = focus;
    this._paint(false);
  }

  /** Paint in the next frame. */
  paint(): void {
    this._paint(true);
  }

  /** Whether marks are moving. */
  get isMoving(): boolean {
    return this._from !== null;
  }

  dispose(): void {
    cancelAnimationFrame(this._frame);
    this._painting = null;
  }

  private _paint(whole: boolean): void {
    this._whole ||= whole;
    this._frame ||= requestAnimationFrame(() => this._turn());
  }

  private _turn(): void {
    this._frame = 0;
    const painting = this._painting;
    if (!painting) {
      return;
    }
    if (this._from && performance.now() - this._began >= MOVING) {
      this._from = null;
      this._whole = true;
    }
    const { width, height } = painting.size;
    if (this._whole) {
      this._whole = false;
      paintLadder(cleared(this._base, width, height), painting);
    }
    paintTrials(cleared(this._over, width, height), painting, this._pointed, this._focus);
    if (this._from) {
      this._paint(true);
    }
  }

  private _at(node: INode): IPlace {
    if (!this._from) {
      return { x: node.x, y: node.y, shown: 1 };
    }
    const part = Math.min(1, (performance.now() - this._began) / MOVING);
    const eased = 1 - (1 - part) ** 3;
    const from = this._from.get(node.key);
    const source = from ?? (node.before && this._from.get(node.before.key)) ?? { ...node, shown: 0 };
    return {
      x: source.x + (node.x - source.x) * eased,
      y: source.y + (node.y - source.y) * eased,
      shown: from ? from.shown + (1 - from.shown) * eased : eased
    };
  }

  private _began = 0;
  private _focus: INode | null = null;
  private _frame = 0;
  /** The positions at the start of a movement; null if nothing moves. */
  private _from: Map<string, IPlace> | null = null;
  private _painting: IPainting | null = null;
  private _pointed: readonly number[] = [];
  private _scroll = { left: 0, top: 0 };
  private _size = { width: 0, height: 0 };
  private _theme: ILadderTheme | null = null;
  private _whole = false;
}

function still(): boolean {
  return window.matchMedia('(prefers-reduced-motion: reduce)').matches;
}

function ladderTheme(): ILadderTheme {
  const style = getComputedStyle(document.body);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const base = theme();
  return {
    ...base,
    family: colour('--jp-ui-font-family') || 'sans-serif',
    ended: base.dark ? '#5c636e' : '#c3c8d1',
    faint: base.dark ? '#444a53' : '#dcdfe5',
    failed: colour('--jp-error-color1') || '#d32f2f',
    warn: colour('--jp-warn-color1') || '#e08a00'
  };
}
