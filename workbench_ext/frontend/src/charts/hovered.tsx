/** What is said of a trial that is pointed at in one of several small charts. */

import * as React from 'react';

import { trialFacts } from '../chart/tip';
import { IContext } from '../experiment/context';
import { useSignal } from '../hooks';

/** The trial that is pointed at, and its hyperparameters. */
export function Hovered({ context }: { context: IContext }): React.JSX.Element | null {
  const { experiment, selection } = context;
  useSignal(selection.changed);
  const trial = selection.hovered === null ? undefined : experiment.trials.get(selection.hovered);
  if (!trial) {
    return null;
  }
  const [state, last, ...own] = trialFacts(trial, context).map(([name, value]) => `${name} ${value}`);
  return (
    <span className="wb-Charts-hovered" aria-hidden="true">
      <strong>{trial.label}</strong> {[...own, state, last].join(' · ')}
    </span>
  );
}
