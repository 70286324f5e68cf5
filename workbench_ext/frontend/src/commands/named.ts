/** How questions and notices name what they are about: by its names while they are short, else by how many. */

import { TranslationBundle } from '@jupyterlab/translation';

import { IExperiment } from '../server/api';

/** Characters of several names together. */
const MOST = 60;

/** `digits@2`, `digits@1, digits@2`, or `14 experiments`. */
export function named(rows: readonly Pick<IExperiment, 'label'>[], trans: TranslationBundle): string {
  const count = trans._n('%1 experiment', '%1 experiments', rows.length);
  return short(rows.map(({ label }) => label)) ?? count;
}

/** `digits@2/t0007`, `digits@2/t0007, t0008`, or `14 trials of digits@2`. */
export function trialsNamed(label: string, numbers: readonly number[], trans: TranslationBundle): string {
  const names = short(numbers.map(number => `t${String(number).padStart(4, '0')}`));
  return names === null ? trans._n('%1 trial of %2', '%1 trials of %2', numbers.length, label) : `${label}/${names}`;
}

function short(names: readonly string[]): string | null {
  const all = names.join(', ');
  return names.length === 1 || all.length <= MOST ? all : null;
}
