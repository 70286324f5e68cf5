/** Trials as dots: painting them, and hit tests. Law: pure but for the canvas it is given. */

import { IColouring } from '../parameters/colouring';
import { ITheme } from './paint';
import { IPicture } from './plot';
import { IScale } from './scale';

/** A trial's place on both axes. */
export interface IDot {
  readonly trial: number;
  readonly x: number;
  readonly y: number;
  /** Shown as a cross. */
  readonly failed: boolean;
}

interface IGiven {
  /** The best first; each has a place on both axes. */
  readonly dots: readonly IDot[];
  readonly colours: IColouring;
  readonly selected: ReadonlySet<number>;
  readonly theme: ITheme;
  /** The trial that has a ring. */
  readonly best: number | null;
  /** The radius in pixels. */
  readonly radius?: number;
  /** Whether dots have a rim, because they lie on colours. */
  readonly rimmed?: boolean;
}

type Dotted = Pick<IPicture, 'order' | 'nearest' | 'within' | 'point' | 'paint'> & {
  readonly of: ReadonlyMap<number, IDot>;
};

const RADIUS = 4.5;
/** Maximum distance in pixels at which the pointer selects a dot. */
const NEAR = 18;
/** The number of dots from which on they are drawn more transparent. */
const CROWD = 2000;

/** Dots as the parts of a picture that depend on its trials. */
export function dotted({ dots, colours, selected, theme, best, radius = RADIUS, rimmed = false }: IGiven): Dotted {
  const of = new Map(dots.map(one => [one.trial, one]));
  const place = ({ x: across, y: up }: IDot, x: IScale, y: IScale) => [x.of(across), y.of(up)] as const;
  return {
    of,
    order: dots.map(({ trial }) => trial),
    nearest: (left, top, x, y) => {
      let [least, trial]: [number, number | null] = [NEAR * NEAR, null];
      for (const one of dots) {
        const [h, v] = place(one, x, y);
        const away = (h - left) ** 2 + (v - top) ** 2;
        // Of equal ones, the first, which is better and on top.
        if (away < least) {
          [least, trial] = [away, one.trial];
        }
      }
      return trial;
    },
    within: (box, x, y) =>
      dots
        .filter(one => {
          const [left, top] = place(one, x, y);
          return left >= box.left && left <= box.right && top >= box.top && top <= box.bottom;
        })
        .map(({ trial }) => trial),
    point: (paper, x, y, number) => {
      const one = of.get(number);
      if (one) {
        const [left, top] = place(one, x, y);
        disc(paper, left, top, radius + 5, theme.page);
        disc(paper, left, top, radius + 3.5, theme.text);
        disc(paper, left, top, radius + 2, colours.of(number));
      }
    },
    paint: (paper, x, y) => {
      const choosing = selected.size > 0;
      // The best last, so that they are on top; unselected ones first.
      for (const chosen of choosing ? [false, true] : [true]) {
        for (const one of [...dots].reverse()) {
          if (choosing && selected.has(one.trial) !== chosen) {
            continue;
          }
          const [left, top] = place(one, x, y);
          const colour = chosen ? colours.of(one.trial) : theme.muted;
          const size = chosen ? radius : radius - 1.5;
          paper.globalAlpha = chosen ? (dots.length > CROWD ? 0.6 : rimmed ? 1 : 0.85) : 0.25;
          if (one.failed) {
            cross(paper, left, top, colour);
          } else {
            if (rimmed) {
              disc(paper, left, top, size + 2, theme.page);
              disc(paper, left, top, size + 1, theme.text);
            }
            disc(paper, left, top, size, colour);
          }
        }
      }
      paper.globalAlpha = 1;
      const top = of.get(best ?? -1);
      if (top) {
        paper.strokeStyle = theme.text;
        paper.lineWidth = 1.5;
        paper.beginPath();
        paper.arc(...place(top, x, y), radius + 3, 0, 2 * Math.PI);
        paper.stroke();
      }
    }
  };
}

/** A number from -1 to 1 that is always the same for a trial, and far from its neighbours'. */
export function jitter(trial: number): number {
  return ((((trial + 1) * 0.6180339887498949) % 1) - 0.5) * 2;
}

function disc(paper: CanvasRenderingContext2D, left: number, top: number, radius: number, colour: string): void {
  paper.fillStyle = colour;
  paper.beginPath();
  paper.arc(left, top, radius, 0, 2 * Math.PI);
  paper.fill();
}

function cross(paper: CanvasRenderingContext2D, left: number, top: number, colour: string): void {
  paper.strokeStyle = colour;
  paper.lineWidth = 2;
  paper.beginPath();
  paper.moveTo(left - 3.5, top - 3.5);
  paper.lineTo(left + 3.5, top + 3.5);
  paper.moveTo(left - 3.5, top + 3.5);
  paper.lineTo(left + 3.5, top - 3.5);
  paper.stroke();
}
