/** A line as high as a word: the best value so far. */

import * as React from 'react';

import { Value } from '../server/api';

const WIDTH = 52;
const HEIGHT = 16;
/** Room for the line's own thickness and for the dot at its end. */
const MARGIN = 2.5;

export function Sparkline({ values, label }: { values: readonly Value[]; label: string }): React.JSX.Element | null {
  const numbers = values.filter(value => typeof value === 'number');
  if (numbers.length < 2) {
    return null;
  }
  const points = places(numbers);
  const [x, y] = points[points.length - 1]!;
  return (
    <svg
      className="wb-Sparkline"
      width={WIDTH}
      height={HEIGHT}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      role="img"
      aria-label={label}
    >
      <polyline points={points.map(point => point.join(',')).join(' ')} />
      <circle cx={x} cy={y} r={1.75} />
    </svg>
  );
}

/** Where each value is drawn, in pixels from the upper left corner. Equal values make a line in the middle. */
export function places(values: readonly number[]): readonly (readonly [number, number])[] {
  const low = Math.min(...values);
  const range = Math.max(...values) - low;
  return values.map((value, at) => [
    round(MARGIN + (at / (values.length - 1)) * (WIDTH - 2 * MARGIN)),
    round(HEIGHT - MARGIN - (range > 0 ? (value - low) / range : 0.5) * (HEIGHT - 2 * MARGIN))
  ]);
}

function round(pixels: number): number {
  return Math.round(pixels * 10) / 10;
}
