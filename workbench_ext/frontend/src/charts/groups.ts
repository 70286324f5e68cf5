/** Which metrics belong together. Law: pure; it reads names, and only two forms of them. */

import { ISystem } from '../server/api';

/** Words before an underscore that say on which data a metric was measured. */
const SPLITS = /^(train|training|val|valid|validation|test|eval)_(?=.)/;

/** Under what it is kept whether the measures of processes are folded: no metric's prefix has a slash. */
export const SYSTEM = 'system/';

/** Such as `memory (GB)`. */
export function systemLabel({ title, unit }: ISystem): string {
  return `${title} (${unit})`;
}

export interface IMetricGroup {
  /** `train`, of `train/loss` and `train_acc`; empty for metrics without a prefix. */
  readonly prefix: string;
  readonly names: readonly string[];
}

/** Metrics by prefix, in the order in which they first appear; those without a prefix come last. */
export function groups(names: readonly string[]): IMetricGroup[] {
  const found = new Map<string, string[]>();
  for (const name of names) {
    const prefix = prefixOf(name);
    found.set(prefix, [...(found.get(prefix) ?? []), name]);
  }
  const rest = found.get('') ?? [];
  found.delete('');
  const all = [...found].map(([prefix, names]) => ({ prefix, names }));
  return rest.length > 0 ? [...all, { prefix: '', names: rest }] : all;
}

function prefixOf(name: string): string {
  const slash = name.indexOf('/');
  return slash > 0 && slash < name.length - 1 ? name.slice(0, slash) : (SPLITS.exec(name)?.[1] ?? '');
}
