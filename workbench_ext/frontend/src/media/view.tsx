/** Media of the selected trials side by side; of the best ones where none is selected. */

import * as React from 'react';

import { IContext } from '../experiment/context';
import { useSelected, useSignal } from '../hooks';
import { shown } from '../numbers';
import { goalValue, ranked } from '../parameters/parameters';
import { Beside } from './beside';

/** Trials that are shown where none is selected, and the most that are shown. */
const BEST = 4;
const MOST = 12;

export function MediaView({ context }: { context: IContext }): React.JSX.Element {
  const { experiment, selection, trans } = context;
  useSignal(experiment.changed);
  const selected = useSelected(selection);
  const order = ranked(experiment.trials, experiment.goal?.mode ?? 'max');
  const wanted = selected.size > 0 ? order.filter(({ number }) => selected.has(number)) : order.slice(0, BEST);
  const drawn = wanted.slice(0, MOST);
  const words =
    selected.size === 0
      ? trans._n(
          'The best trial. Select others in the table.',
          'The %1 best trials. Select others in the table.',
          drawn.length
        )
      : drawn.length < selected.size
        ? trans.__('The %1 best of %2 selected trials.', drawn.length, selected.size)
        : trans._n('%1 selected trial.', '%1 selected trials.', drawn.length);
  return (
    <div className="wb-View wb-MediaView">
      <p className="wb-Trial-none" role="status">
        {words}
      </p>
      {drawn.length > 0 && (
        <Beside
          context={context}
          sides={drawn.map(trial => ({
            label: trial.label,
            value: shown(goalValue(trial)),
            experiment: experiment.ref,
            trial: trial.number,
            change: trial.change
          }))}
          otherwise={
            <p className="wb-Note">
              {trans.__('They have logged no media. In the training code: trial.log(sample=array), with a picture.')}
            </p>
          }
        />
      )}
    </div>
  );
}
