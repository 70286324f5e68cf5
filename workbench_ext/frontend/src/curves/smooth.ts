/** Smoothing. Law: pure; smoothed values are drawn beside the raw values, never instead of them. */

/**
 * An exponential mean whose beginning is not pulled towards zero (its weights are divided by their sum).
 *
 * `weight` is what the past counts, 0 (nothing: the values themselves) to below 1. `spacing` is the distance in x
 * between two points of the curve before it was thinned: a thinned one is smoothed as the whole one would be. Values
 * that are not finite stay as they are and count for nothing.
 */
export function smoothed(x: readonly number[], y: readonly number[], weight: number, spacing = 1): number[] {
  if (weight <= 0) {
    return [...y];
  }
  let mean = 0;
  let total = 0;
  let last = NaN;
  return y.map((value, at) => {
    if (!Number.isFinite(value)) {
      return value;
    }
    const turns = Number.isNaN(last) ? 1 : Math.max((x[at]! - last) / spacing, 1e-9);
    last = x[at]!;
    const kept = weight ** turns;
    mean = kept * mean + (1 - kept) * value;
    total = kept * total + (1 - kept);
    return mean / total;
  });
}

/** The distance in x between the points of a curve that had `points` of them before it was thinned. */
export function spacing(x: readonly number[], points: number): number {
  const span = x.length > 1 ? x[x.length - 1]! - x[0]! : 0;
  return span > 0 && points > 1 ? span / (points - 1) : 1;
}
