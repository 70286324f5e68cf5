/** What the views of one level say about it. */

import * as React from 'react';

import { LegendBar } from '../chart/legend';
import { LevelChoice } from './choice';
import { IShared } from './shared';

/** The choice of the level, for a view's controls. */
export function Level({ shared }: { shared: IShared }): React.JSX.Element {
  const { trans } = shared.context;
  return <LevelChoice chosen={shared.chosen} highest={trans.__('highest reached')} trans={trans} />;
}

/** The colours, and how many trials are shown: `shown` of those with a value at the level. */
export function LevelStatus(props: { shared: IShared; shown: number; children?: React.ReactNode }): React.JSX.Element {
  const { shared, shown, children } = props;
  const { context, chosen, colours, selected, trials } = shared;
  const { trans, selection, experiment } = context;
  const lacking = trials.length - shown;
  return (
    <div className="wb-Under">
      <LegendBar legend={colours.legend} />
      {children}
      <span className="wb-Count" role="status">
        {selected.size > 0
          ? trans.__('%1 of %2 selected', selected.size, experiment.trials.size)
          : chosen.level &&
            trans.__(
              '%1 of %2 trials have a value at step %3',
              trials.length,
              experiment.trials.size,
              chosen.level.step
            ) + (lacking > 0 ? trans.__('; %1 are not shown', lacking) : '')}
        {selected.size > 0 && (
          <button type="button" className="wb-Link" onClick={() => selection.clear()}>
            {trans.__('clear')}
          </button>
        )}
      </span>
    </div>
  );
}

/** Why the view is empty. */
export function Waits({ words }: { words: string | null }): React.JSX.Element | null {
  return words === null ? null : (
    <p className="wb-Note" role="status">
      {words}
    </p>
  );
}
