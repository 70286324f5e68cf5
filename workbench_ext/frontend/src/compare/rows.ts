/** The rows of a table with one column for each trial. Law: pure. */

/** Columns that a comparison has at most: more cannot be read. */
export const MOST_COMPARED = 50;

export interface IRow<T> {
  readonly name: string;
  /** One for each trial; undefined where it has none. */
  readonly values: readonly (T | undefined)[];
}

/** Rows by name: those in which trials differ, and those that are equal for all. */
export function apart<T>(columns: readonly Readonly<Record<string, T>>[]): {
  readonly differing: readonly IRow<T>[];
  readonly equal: readonly IRow<T>[];
} {
  const names = [...new Set(columns.flatMap(column => Object.keys(column)))];
  const rows = names.map(name => ({
    name,
    values: columns.map(column => (name in column ? column[name] : undefined))
  }));
  const isEqual = ({ values }: IRow<T>) => values.every(value => same(value, values[0]));
  return { differing: rows.filter(row => !isEqual(row)), equal: rows.filter(isEqual) };
}

/** Whether two values are written alike. A missing value is not null. */
export function same(a: unknown, b: unknown): boolean {
  return (a === undefined) === (b === undefined) && JSON.stringify(a) === JSON.stringify(b);
}

/** The places of the best of some values; none where fewer than two are numbers, or all are equal. */
export function bestOf(values: readonly number[], mode: 'max' | 'min'): readonly number[] {
  const found = values.filter(Number.isFinite);
  const best = mode === 'max' ? Math.max(...found) : Math.min(...found);
  return new Set(found).size < 2 ? [] : values.flatMap((value, at) => (value === best ? [at] : []));
}
