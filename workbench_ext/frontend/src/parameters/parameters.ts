/** The values of a trial that can be plotted, sorted and filtered. Law: pure; it tolerates older specs with fewer
 * fields. */

import { IGoal, ITrial, Spec } from '../server/api';
import { numeric } from '../curves/thin';

export interface IParameter {
  readonly name: string;
  /** Numbers lie on an axis; everything else is a category. */
  readonly kind: 'number' | 'category';
  readonly log: boolean;
  /** The bounds of a number; for categories, their count. */
  readonly low: number;
  readonly high: number;
  /** Labels, in the order in which they were given. */
  readonly categories: readonly string[];
}

interface IForm {
  readonly name?: unknown;
  readonly kind?: unknown;
  readonly low?: unknown;
  readonly high?: unknown;
  readonly options?: unknown;
}

/** The hyperparameters, in the order of the space; those that only trials have come last. */
export function parameters(spec: Spec | null, trials: ReadonlyMap<number, ITrial>): IParameter[] {
  const space = (spec?.space ?? {}) as { parameters?: unknown };
  const forms = new Map<string, IForm>();
  for (const form of Array.isArray(space.parameters) ? (space.parameters as readonly IForm[]) : []) {
    forms.set(String(form.name), form);
  }
  const values = new Map<string, unknown[]>([...forms.keys()].map(name => [name, []]));
  const labels = new Map<string, Set<string>>();
  for (const trial of trials.values()) {
    for (const [name, value] of Object.entries(trial.configuration ?? {})) {
      (values.get(name) ?? values.set(name, []).get(name)!).push(value);
      (labels.get(name) ?? labels.set(name, new Set()).get(name)!).add(labelOf(name, trial));
    }
  }
  return [...values].map(([name, found]) => parameter(name, forms.get(name), found, labels.get(name) ?? new Set()));
}

function parameter(
  name: string,
  form: IForm | undefined,
  found: readonly unknown[],
  tried: ReadonlySet<string>
): IParameter {
  const bounded = typeof form?.low === 'number' && typeof form.high === 'number';
  const numbers = found.filter(value => typeof value === 'number');
  if (form?.kind === 'choice' || (!bounded && (numbers.length < found.length || found.length === 0))) {
    const labels = new Set([...options(form).filter(isExact).map(categoryLabel), ...tried]);
    const categories = [...labels];
    return { name, kind: 'category', log: false, low: 0, high: categories.length - 1, categories };
  }
  const low = bounded ? form.low : Math.min(...numbers);
  const high = bounded ? form.high : Math.max(...numbers);
  return { name, kind: 'number', log: form?.kind === 'loguniform' && low > 0, low, high, categories: [] };
}

/** The constants among a choice's options; for options that are distributions, use the trials' values. */
function options(form: IForm | undefined): unknown[] {
  const given = Array.isArray(form?.options) ? (form.options as readonly unknown[]) : [];
  return given
    .map(option => option as { kind?: unknown; value?: unknown })
    .filter(option => option?.kind === 'constant')
    .map(option => option.value);
}

/** Whether JavaScript has just this number: two integers over 2**53 may be one there. */
function isExact(value: unknown): boolean {
  return !Number.isInteger(value) || Number.isSafeInteger(value);
}

/** A trial's value as a category: an integer that JavaScript does not have as the server wrote it. */
export function labelOf(name: string, { configuration, written }: ITrial): string {
  const value = configuration?.[name];
  return (isExact(value) ? undefined : written?.[name]) ?? categoryLabel(value);
}

/** A category as text. */
export function categoryLabel(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value));
}

/** A trial's position on a parameter's axis; NaN if the parameter is inactive for it. */
export function placeOf(parameter: IParameter, trial: ITrial): number {
  const value = trial.configuration?.[parameter.name];
  if (value === undefined || value === null) {
    return parameter.kind === 'category' && value === null ? parameter.categories.indexOf('null') : NaN;
  }
  if (parameter.kind === 'number') {
    return typeof value === 'number' ? value : NaN;
  }
  const place = parameter.categories.indexOf(labelOf(parameter.name, trial));
  return place < 0 ? NaN : place;
}

/** A trial's value of the goal: the last reported one, by which trials are compared. */
export function goalValue(trial: ITrial): number {
  return numeric(trial.value ?? trial.best);
}

/** Trials by their goal, the best first; those without a number last, the older first among equals. */
export function ranked(trials: ReadonlyMap<number, ITrial>, mode: IGoal['mode']): ITrial[] {
  const sign = mode === 'max' ? -1 : 1;
  const key = (trial: ITrial) => {
    const value = sign * goalValue(trial);
    return Number.isFinite(value) ? value : Infinity;
  };
  return [...trials.values()].sort((a, b) => {
    const [first, second] = [key(a), key(b)];
    return first === second ? a.number - b.number : first - second;
  });
}
