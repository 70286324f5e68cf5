/** Which experiments the sidebar shows. Law: pure. */

import { ENDED, IExperiment } from '../server/api';

export interface IFilter {
  /** Words that must all occur in a label, a tag, the note, the notebook's path or the goal. */
  readonly text: string;
  /** A state, `active` for all that have not ended, or nothing. */
  readonly state: string;
  readonly tag: string;
}

export const EVERYTHING: IFilter = { text: '', state: '', tag: '' };

export function filtered(experiments: readonly IExperiment[], { text, state, tag }: IFilter): readonly IExperiment[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return experiments.filter(
    experiment =>
      (!state || experiment.state === state || (state === 'active' && !ENDED.has(experiment.state))) &&
      (!tag || (experiment.tags ?? []).includes(tag)) &&
      words.every(word => searched(experiment).includes(word))
  );
}

/** All tags in use, in alphabetical order. */
export function tagsOf(experiments: readonly IExperiment[]): readonly string[] {
  return [...new Set(experiments.flatMap(({ tags }) => tags ?? []))].sort((a, b) => a.localeCompare(b));
}

function searched({ label, tags, note, notebook, goal }: IExperiment): string {
  return [label, ...(tags ?? []), note, notebook, goal?.metric].join('\n').toLowerCase();
}
