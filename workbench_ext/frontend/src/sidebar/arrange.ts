/** The order of the sidebar's rows, and which versions of an experiment are folded under its first one. Law: pure. */

import { ENDED, IExperiment } from '../server/api';

export const SORTS = ['newest', 'name', 'state', 'best'] as const;
export type Sort = (typeof SORTS)[number];

/** States as people look for them: first what needs them. */
const STATES = [
  ...['failed', 'paused', 'running', 'setting up', 'stopping', 'waiting'],
  ...['completed', 'stopped', 'unreadable']
];

/** The versions of an experiment below the row of one of them. */
export interface IVersions {
  /** The name that they share. */
  readonly name: string;
  /** Versions below that row, and whether they are shown. */
  readonly count: number;
  readonly open: boolean;
}

export interface IArranged {
  readonly rows: readonly IExperiment[];
  /** By the id of a row with other versions below it. */
  readonly heads: ReadonlyMap<string, IVersions>;
  /** The ids of rows below such a row. */
  readonly below: ReadonlySet<string>;
}

/**
 * The rows in their order; those with one name are together, below the first of them. Folded versions are left out,
 * but not those that are under way, and not those that `stays` says are needed.
 */
export function arranged(
  experiments: readonly IExperiment[],
  sort: Sort,
  isOpen: (name: string) => boolean,
  stays: (experiment: IExperiment) => boolean
): IArranged {
  const names = new Map<string, IExperiment[]>();
  for (const one of sorted(experiments, sort)) {
    const name = nameOf(one);
    const versions = names.get(name);
    if (versions) {
      versions.push(one);
    } else {
      names.set(name, [one]);
    }
  }
  const rows: IExperiment[] = [];
  const heads = new Map<string, IVersions>();
  const below = new Set<string>();
  for (const [name, [first, ...others]] of names) {
    rows.push(first!);
    if (others.length === 0) {
      continue;
    }
    const open = isOpen(name);
    heads.set(first!.id, { name, count: others.length, open });
    for (const one of others) {
      below.add(one.id);
      if (open || !ENDED.has(one.state) || stays(one)) {
        rows.push(one);
      }
    }
  }
  return { rows, heads, below };
}

/** Experiments in an order; equal ones as the server sends them, the newest first. */
export function sorted(experiments: readonly IExperiment[], sort: Sort): readonly IExperiment[] {
  const orders: Readonly<Record<Sort, ((a: IExperiment, b: IExperiment) => number) | null>> = {
    newest: null,
    name: (a, b) => nameOf(a).localeCompare(nameOf(b), undefined, { numeric: true }),
    state: (a, b) => STATES.indexOf(a.state) - STATES.indexOf(b.state),
    best: (a, b) => metricOf(a).localeCompare(metricOf(b)) || bestOf(a) - bestOf(b)
  };
  const order = orders[sort];
  return order ? [...experiments].sort(order) : experiments;
}

/** The name that versions share. */
export function nameOf({ name, label }: IExperiment): string {
  return name ?? label.replace(/@\d+$/, '');
}

/** Values of one metric can be compared. Experiments without a value come last. */
function metricOf({ goal, best }: IExperiment): string {
  return goal && best ? goal.metric : '\uffff';
}

function bestOf({ goal, best }: IExperiment): number {
  const value = best && typeof best.value === 'number' ? best.value : NaN;
  return Number.isNaN(value) ? Infinity : goal?.mode === 'min' ? value : -value;
}
