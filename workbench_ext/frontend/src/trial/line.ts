/** A small picture's line. Law: pure; a value that is not finite is a gap. */

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
      line += `${drawing ? 'L' : 'M'}${x(at).toFixed(1)},${y(value).toFixed(1)}`;
    }
    drawing = Number.isFinite(value);
  });
  return line;
}
