/** A small picture's line. Law: pure; a value that is not finite is a gap, and a point between two gaps is a dot. */

/** The path of an SVG through these points; `x` and `y` say where they are drawn. */
export function lineOf(
  xs: readonly number[],
  ys: readonly number[],
  x: (at: number) => number,
  y: (value: number) => number
): string {
  let line = '';
  let drawing = false;
  xs.forEach((at, k) => {
    const value = ys[k]!;
    if (Number.isFinite(value)) {
      const isAlone = !drawing && !Number.isFinite(ys[k + 1] ?? NaN);
      // A line of no length, whose round ends are the dot.
      line += `${drawing ? 'L' : 'M'}${x(at).toFixed(1)},${y(value).toFixed(1)}${isAlone ? 'h0' : ''}`;
    }
    drawing = Number.isFinite(value);
  });
  return line;
}
