/** The goal between trials. Law: pure; a weighted mean of near trials, so it never exceeds their values, and nothing
 * where no trial is near.
 *
 * The weight of a trial falls with its distance as a normal density (the estimator of Nadaraya and Watson, 1964), whose
 * width follows from how many trials there are and how far they spread (Scott's rule).
 */

/** A trial: where it is, as shares of both axes (or as the number of its category), and its value. */
export interface ISpot {
  readonly x: number;
  readonly y: number;
  readonly value: number;
}

/** Whether the places on an axis are numbers of categories, between which nothing is interpolated. */
export interface INamed {
  readonly x: boolean;
  readonly y: boolean;
}

/** Bounds of the widths, as shares of an axis: a dozen trials make no blur, and many no noise. */
const NARROW = 0.04;
const WIDE = 0.15;
/** Widths from the nearest trial at which the field ends. */
const REACH = 2.5;

/** The value at any place; NaN where no trial is near. */
export function field(spots: readonly ISpot[], named: INamed): (x: number, y: number) => number {
  const wide = width(
    spots.map(({ x }) => x),
    named.x
  );
  const high = width(
    spots.map(({ y }) => y),
    named.y
  );
  return (x, y) => {
    let [weights, sum, nearest] = [0, 0, Infinity];
    for (const spot of spots) {
      const away = apart(spot.x, x, wide) + apart(spot.y, y, high);
      if (away < Infinity) {
        const weight = Math.exp(-away / 2);
        weights += weight;
        sum += weight * spot.value;
        nearest = Math.min(nearest, away);
      }
    }
    return nearest <= REACH * REACH ? sum / weights : NaN;
  };
}

/** The squared distance in widths. Different categories are infinitely far. */
function apart(from: number, to: number, width: number | null): number {
  if (width === null) {
    return from === Math.round(to) ? 0 : Infinity;
  }
  return ((from - to) / width) ** 2;
}

function width(places: readonly number[], isNamed: boolean): number | null {
  if (isNamed) {
    return null;
  }
  const mean = places.reduce((sum, one) => sum + one, 0) / Math.max(places.length, 1);
  const spread = Math.sqrt(places.reduce((sum, one) => sum + (one - mean) ** 2, 0) / Math.max(places.length, 1));
  return Math.min(Math.max(spread * places.length ** (-1 / 6), NARROW), WIDE);
}
