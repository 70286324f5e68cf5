/** Lines that differ, side by side. Law: pure. */

import { DiffLine } from '../server/api';

export interface IRow {
  /** Line number from 1 and text on each side; null where that side has no such line. */
  readonly a: { readonly n: number; readonly text: string } | null;
  readonly b: { readonly n: number; readonly text: string } | null;
  readonly changed: boolean;
}

/** Lines of a difference as rows: removed lines beside their replacements. */
export function sideBySide(diff: readonly DiffLine[]): IRow[] {
  const rows: IRow[] = [];
  let [n, m] = [0, 0];
  for (let at = 0; at < diff.length;) {
    if (diff[at]![0] === ' ') {
      const text = diff[at]![1];
      rows.push({ a: { n: ++n, text }, b: { n: ++m, text }, changed: false });
      at += 1;
      continue;
    }
    const [gone, come]: [string[], string[]] = [[], []];
    for (; at < diff.length && diff[at]![0] !== ' '; at += 1) {
      (diff[at]![0] === '-' ? gone : come).push(diff[at]![1]);
    }
    for (let k = 0; k < Math.max(gone.length, come.length); k += 1) {
      rows.push({
        a: k < gone.length ? { n: ++n, text: gone[k]! } : null,
        b: k < come.length ? { n: ++m, text: come[k]! } : null,
        changed: true
      });
    }
  }
  return rows;
}

/** Rows with only so many unchanged ones around what changed; a number stands for those left out between. */
export function folded(rows: readonly IRow[], around = 3): (IRow | number)[] {
  const near = rows.map((_, at) =>
    rows.slice(Math.max(0, at - around), at + around + 1).some(({ changed }) => changed)
  );
  const found: (IRow | number)[] = [];
  rows.forEach((row, at) => {
    if (near[at]) {
      found.push(row);
    } else if (typeof found[found.length - 1] === 'number') {
      found[found.length - 1] = (found[found.length - 1] as number) + 1;
    } else {
      found.push(1);
    }
  });
  return found;
}
