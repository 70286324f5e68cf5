/** Values that views compute from an experiment's trials, cached until the trials change. Law: the model changes them
 * in place. */

import { TranslationBundle } from '@jupyterlab/translation';
import { useMemo } from 'react';

import { ExperimentModel } from '../experiment/experiment';
import { ITrial } from '../server/api';
import { IColouring, colouring } from './colouring';
import { IParameter, parameters, ranked } from './parameters';

/** The hyperparameters. */
export function useParameters({ spec, trials }: ExperimentModel): readonly IParameter[] {
  // eslint-disable-next-line react-hooks/exhaustive-deps -- trials change in place: how many there are is what counts
  return useMemo(() => parameters(spec, trials), [spec, trials, trials.size]);
}

/** The trials, the best first. `looks` differs when one of them does. */
export function useRanked({ goal, trials }: ExperimentModel, looks: unknown): ITrial[] {
  const mode = goal?.mode ?? 'max';
  // eslint-disable-next-line react-hooks/exhaustive-deps -- trials change in place: `looks` says when
  return useMemo(() => ranked(trials, mode), [trials, mode, looks]);
}

/** The colours of the trials, which are as `ranked` gives them. */
export function useColouring(
  by: string,
  experiment: ExperimentModel,
  known: readonly IParameter[],
  order: readonly ITrial[],
  dark: boolean,
  trans: TranslationBundle
): IColouring {
  const { goal, trials } = experiment;
  return useMemo(
    () => colouring(by, { trials, parameters: known, goal, dark, trans }),
    // eslint-disable-next-line react-hooks/exhaustive-deps -- trials change in place, and the goal with each answer: `order` says when
    [by, known, order, dark]
  );
}
