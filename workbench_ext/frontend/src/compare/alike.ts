/** Comparisons of several trials with one baseline, those with the same differences together. Law: pure. */

import { IComparison, IComparisonSection } from '../server/api';

/** Trials that differ from the baseline in the same. */
export interface IAlike {
  readonly refs: readonly string[];
  readonly found: IComparison;
}

/** Comparisons with one baseline; those with the same differences together, in the order of the first of them. */
export function alike(comparisons: readonly IComparison[]): readonly IAlike[] {
  const found = new Map<string, { refs: string[]; found: IComparison }>();
  for (const one of comparisons) {
    const sections = one.sections.filter(({ kind }) => kind !== 'configuration').flatMap(telling);
    // A section's rank counts those that are left out here.
    const key = JSON.stringify([sections.map(({ likely: _, ...section }) => section), one.partial]);
    const others = found.get(key);
    if (others) {
      others.refs.push(one.b.ref);
    } else {
      found.set(key, { refs: [one.b.ref], found: { ...one, sections } });
    }
  }
  return [...found.values()];
}

/** A section without what any two trials differ in: the numbers from which their seeds come. */
function telling(section: IComparisonSection): readonly IComparisonSection[] {
  if (section.kind !== 'seeds') {
    return [section];
  }
  const items = section.items.filter(({ name }) => name !== 'trial');
  return items.length > 0 ? [{ ...section, items, summary: '' }] : [];
}
