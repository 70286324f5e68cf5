/** The files that trials logged, by name and step. Law: pure. */

import { ITrialFile } from '../server/api';

/** What a trial logged under one name in one step. */
export interface IStep {
  /** Null for a file that belongs to no step. */
  readonly step: number | null;
  readonly files: readonly ITrialFile[];
  /** The file with the captions of these files, if they have any. */
  readonly captions: ITrialFile | null;
}

/** The steps in which something was logged, ascending, by name. */
export type Media = ReadonlyMap<string, readonly IStep[]>;

/** `files` as the server sends them: by title, step and number. */
export function byName(files: readonly ITrialFile[]): Media {
  const names = new Map<string, Map<number | null, { files: ITrialFile[]; captions: ITrialFile | null }>>();
  for (const file of files) {
    const steps = names.get(file.title) ?? new Map<number | null, { files: ITrialFile[]; captions: null }>();
    const at = steps.get(file.step) ?? { files: [], captions: null };
    if (file.kind === 'captions') {
      at.captions = file;
    } else {
      at.files.push(file);
    }
    names.set(file.title, steps.set(file.step, at));
  }
  const media = new Map<string, readonly IStep[]>();
  for (const [name, steps] of names) {
    const found = [...steps].map(([step, at]) => ({ step, ...at })).filter(at => at.files.length > 0);
    if (found.length > 0) {
      media.set(
        name,
        found.sort((a, b) => (a.step ?? 0) - (b.step ?? 0))
      );
    }
  }
  return media;
}

/** All steps of several names or trials, ascending. */
export function stepsOf(all: Iterable<readonly IStep[]>): readonly number[] {
  const found = new Set<number>();
  for (const steps of all) {
    for (const { step } of steps) {
      if (step !== null) {
        found.add(step);
      }
    }
  }
  return [...found].sort((a, b) => a - b);
}

/** What is shown at `step`: the newest that was logged up to then. Null if that is nothing; a null step is the newest. */
export function shownAt(steps: readonly IStep[], step: number | null): IStep | null {
  let found: IStep | null = null;
  for (const one of steps) {
    if (one.step === null || step === null || one.step <= step) {
      found = one;
    }
  }
  return found;
}

/** The caption of a file, from the texts in the file of captions. */
export function captionOf(captions: unknown, file: ITrialFile): string {
  const text: unknown = Array.isArray(captions) ? captions[(file.number ?? 1) - 1] : '';
  return typeof text === 'string' ? text : '';
}

/** A histogram as it was logged. */
export interface IHistogram {
  readonly edges: readonly number[];
  readonly counts: readonly number[];
  /** Values that were nan or infinite. */
  readonly left_out: number;
}

/** The bars of a histogram in a picture of `width` × `height`: the widest is the whole picture, and the area counts. */
export interface IBar {
  readonly x: number;
  readonly width: number;
  readonly y: number;
  readonly height: number;
  readonly low: number;
  readonly high: number;
  readonly count: number;
}

/** Heights are counts for bars of equal width; of bars of different widths the areas are, so that they can be compared. */
export function bars({ edges, counts }: IHistogram, width: number, height: number): IBar[] {
  const low = edges[0] ?? 0;
  const span = (edges[edges.length - 1] ?? 0) - low || 1;
  const densities = counts.map((count, at) => count / ((edges[at + 1]! - edges[at]!) / span || 1));
  const most = Math.max(...densities, 0) || 1;
  return counts.map((count, at) => {
    const x = ((edges[at]! - low) / span) * width;
    const tall = (densities[at]! / most) * height;
    const wide = ((edges[at + 1]! - edges[at]!) / span) * width;
    return { x, width: wide, y: height - tall, height: tall, low: edges[at]!, high: edges[at + 1]!, count };
  });
}

/** A cell of a table as it was logged. */
export type Cell = number | string | boolean | null;

/** A table as it was logged. */
export interface ITable {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly Cell[])[];
  /** How many rows there were; perhaps not all were kept. */
  readonly total: number;
}

/** Rows by one column: numbers before texts, and what is missing at the end. */
export function sorted(rows: ITable['rows'], column: number, descending: boolean): ITable['rows'] {
  const sign = descending ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [one, other] = [a[column] ?? null, b[column] ?? null];
    if (one === null || other === null) {
      return Number(one === null) - Number(other === null);
    }
    if (typeof one === 'number' && typeof other === 'number') {
      return sign * (one - other);
    }
    if (typeof one === 'number' || typeof other === 'number') {
      return typeof one === 'number' ? -1 : 1;
    }
    return sign * String(one).localeCompare(String(other), undefined, { numeric: true });
  });
}
