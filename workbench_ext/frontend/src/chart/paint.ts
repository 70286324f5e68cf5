/** Painting on a canvas in the theme's colours. Law: reads colours from the page and nothing else. */

import { IScale } from './scale';

/** The theme's colours, in the form for a canvas. */
export interface ITheme {
  readonly dark: boolean;
  readonly text: string;
  readonly muted: string;
  readonly grid: string;
  readonly page: string;
  readonly brand: string;
  readonly font: string;
}

/** Where the data lie in a picture, in pixels of the page. */
export interface IFrame {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

/** Read the theme again. */
export function theme(): ITheme {
  const style = getComputedStyle(document.body);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const dark = document.body.dataset.jpThemeLight === 'false';
  return {
    dark,
    text: colour('--jp-ui-font-color1'),
    muted: colour('--jp-ui-font-color2'),
    // The faintest border of JupyterLab's dark theme is its page's own colour.
    grid: colour(dark ? '--jp-border-color2' : '--jp-border-color3'),
    page: colour('--jp-layout-color1'),
    brand: colour('--jp-brand-color1'),
    font: `11px ${colour('--jp-ui-font-family') || 'sans-serif'}`
  };
}

/** An empty canvas of a size in pixels of the page, as sharp as the screen. */
export function cleared(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const paper = canvas.getContext('2d')!;
  paper.setTransform(ratio, 0, 0, ratio, 0, 0);
  paper.clearRect(0, 0, width, height);
  return paper;
}

/** Both axes around a frame: grid, ticks, labels, and their names unless the frame is small. */
export function paintAxes(
  paper: CanvasRenderingContext2D,
  frame: IFrame,
  x: IScale,
  y: IScale,
  theme: ITheme,
  named = true
): void {
  const { left, top, width, height } = frame;
  const [right, bottom] = [left + width, top + height];
  paper.font = theme.font;
  paper.lineWidth = 1;
  paper.strokeStyle = theme.grid;
  paper.fillStyle = theme.muted;
  paper.beginPath();
  paper.textAlign = 'center';
  paper.textBaseline = 'top';
  let free = -Infinity;
  for (const { at, label } of x.ticks) {
    const place = left + x.of(at);
    if (!(place >= left - 0.5 && place <= right + 0.5)) {
      continue;
    }
    // Between powers of ten there are too many for a grid.
    line(paper, place, label ? top : bottom - 4, place, bottom);
    const shown = fitting(paper, label, 96);
    const half = paper.measureText(shown).width / 2;
    if (shown && place - half > free) {
      paper.fillText(shown, place, bottom + 6);
      free = place + half + 6;
    }
  }
  paper.textAlign = 'right';
  paper.textBaseline = 'middle';
  for (const { at, label } of y.ticks) {
    const place = top + y.of(at);
    if (!(place >= top - 0.5 && place <= bottom + 0.5)) {
      continue;
    }
    line(paper, left, place, label ? right : left + 4, place);
    paper.fillText(fitting(paper, label, left - 8), left - 6, place);
  }
  paper.stroke();
  paper.fillStyle = theme.text;
  paper.textAlign = 'right';
  paper.textBaseline = 'bottom';
  if (named) {
    paper.fillText(fitting(paper, x.axis.label, width), right, top + height + 36);
    paper.textAlign = 'left';
    paper.fillText(fitting(paper, y.axis.label, width), 16, top - 8);
  }
}

/** `text`, cut with an ellipsis where it is wider than `width`. */
export function fitting(paper: CanvasRenderingContext2D, text: string, width: number): string {
  if (paper.measureText(text).width <= width) {
    return text;
  }
  let length = text.length;
  while (length > 1 && paper.measureText(`${text.slice(0, length)}…`).width > width) {
    length -= 1;
  }
  return `${text.slice(0, length)}…`;
}

function line(paper: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  // On the middle of a pixel, or it would be two pixels wide and grey.
  paper.moveTo(Math.round(x0) + 0.5, Math.round(y0) + 0.5);
  paper.lineTo(Math.round(x1) + 0.5, Math.round(y1) + 0.5);
}
