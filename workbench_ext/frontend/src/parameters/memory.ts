/** Values that views compute from an experiment's trials, cached until the trials change. Law: the model changes them
 * in place. */

import { TranslationBundle } from '@jupyterlab/translation';
import { useEffect, useMemo, useState } from 'react';

import { ExperimentModel } from '../experiment/experiment';
import { measurementsOf } from '../experiment/follow';
import { useMetrics, useSystem } from '../hooks';
import { ITrial } from '../server/api';
import { IColouring, colouring } from './colouring';
import { IMeasure, Measurements, measuresOf } from './measures';
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

/** All that can be measured of a trial. */
export function useMeasures(
  experiment: ExperimentModel,
  known: readonly IParameter[],
  trans: TranslationBundle
): readonly IMeasure[] {
  const names = useMetrics(experiment);
  const system = useSystem(experiment);
  const { goal } = experiment;
  return useMemo(
    () => measuresOf(names, goal, known, trans, system),
    // eslint-disable-next-line react-hooks/exhaustive-deps -- each answer brings a goal of its own: what is in it counts
    [names, goal?.metric, goal?.mode, known, trans, system]
  );
}

/** What was measured, followed from when it is first needed: a view may show none of it. */
export function useMeasured(experiment: ExperimentModel, needed: boolean): Measurements {
  const [measured, setMeasured] = useState<Measurements>(NOTHING);
  useEffect(() => {
    if (!needed) {
      return;
    }
    const model = measurementsOf(experiment);
    const slot = () => setMeasured(model.measured);
    slot();
    model.changed.connect(slot);
    return () => {
      model.changed.disconnect(slot);
    };
  }, [experiment, needed]);
  return measured;
}

const NOTHING: Measurements = new Map();

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
