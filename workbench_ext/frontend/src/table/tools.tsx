/** The tools above the table: the filter, the columns, and inserting into the notebook. */

import { Table } from '@tanstack/react-table';
import * as React from 'react';

import { ITrial } from '../server/api';
import { IColumn } from './columns';
import { IContext } from '../experiment/context';
import { Filter } from './filter';
import { useCommands, useSelected } from '../hooks';
import { MOST_COMPARED } from '../compare/rows';
import { Picker, Tick } from '../chart/controls';

interface IProps {
  context: IContext;
  columns: readonly IColumn[];
  table: Table<ITrial>;
  typed: string;
  onTyped(text: string): void;
  error: Filter['error'];
  perColumn: boolean;
  onPerColumn(perColumn: boolean): void;
  onShown(id: string, visible: boolean): void;
  /** The trials that pass the filter, in the order of the table. */
  found: readonly number[];
}

export function TableTools(props: IProps): React.JSX.Element {
  const { context, error, found } = props;
  const { trans, experiment, commands, selection } = context;
  const selected = useSelected(selection);
  const chosen = selected.size > 0 ? [...selected].sort((a, b) => a - b) : found;
  const errorId = `wb-filter-error-${experiment.key}`;
  return (
    <div className="wb-Controls" role="toolbar" aria-label={trans.__('What the table shows')}>
      <label className="wb-Control wb-Table-filter">
        {trans.__('Filter')}
        <input
          type="search"
          value={props.typed}
          spellCheck={false}
          placeholder={trans.__('text, lr < 0.01, state:running, lr = 0.1..0.5, a or b')}
          aria-invalid={error !== null}
          aria-describedby={error ? errorId : undefined}
          onChange={event => props.onTyped(event.target.value)}
        />
      </label>
      {error ? (
        <span id={errorId} className="wb-Table-error" role="status">
          {wrong(error, context)}
        </span>
      ) : (
        <span className="wb-Count" role="status">
          {selected.size > 0
            ? trans.__('%1 of %2 trials, %3 selected', found.length, experiment.trials.size, selected.size)
            : trans.__('%1 of %2 trials', found.length, experiment.trials.size)}
        </span>
      )}
      <span className="wb-Controls-gap" />
      <Ticked {...props} />
      <Tick label={trans.__('filter columns')} value={props.perColumn} onChange={props.onPerColumn} />
      <Picker
        label={trans.__('Columns')}
        choices={props.columns.map(({ id, label, group }) => ({
          value: id,
          label,
          group,
          chosen: props.table.getColumn(id)?.getIsVisible() ?? false
        }))}
        onChange={props.onShown}
      />
      <button
        type="button"
        className="wb-Button"
        disabled={chosen.length === 0 || !commands.hasCommand('workbench:select-to-notebook')}
        title={trans.__('Insert a notebook cell that loads these trials as a DataFrame')}
        onClick={() =>
          void commands.execute('workbench:select-to-notebook', {
            ...experiment.named,
            label: experiment.row?.label ?? experiment.ref,
            trials: [...chosen]
          })
        }
      >
        {trans._n('Insert %1 trial as DataFrame', 'Insert %1 trials as DataFrame', chosen.length, chosen.length)}
      </button>
    </div>
  );
}

/** What can be done with the selected trials together. */
function Ticked({ context }: IProps): React.JSX.Element | null {
  const { trans, experiment, commands, selection, openCompare } = context;
  useCommands(commands);
  const ticked = useSelected(selection);
  const selected = [...ticked].sort((a, b) => a - b);
  if (selected.length === 0) {
    return null;
  }
  const label = experiment.row?.label ?? experiment.ref;
  const going = selected.filter(trial => commands.isEnabled('workbench:stop', { ...experiment.named, trial }));
  const each = async (command: string, trials: readonly number[]) => {
    for (const trial of trials) {
      await commands.execute(command, { ...experiment.named, trial });
    }
  };
  // Two in the order of their numbers; of several, the first ticked is the one that others are compared with.
  const compared = selected.length === 2 ? selected : [...ticked];
  const refs = compared.map(trial => `${label}/t${String(trial).padStart(4, '0')}`);
  return (
    <span className="wb-Ticked" role="group" aria-label={trans.__('Selected trials')}>
      <button
        type="button"
        className="wb-Button"
        disabled={refs.length < 2 || refs.length > MOST_COMPARED}
        title={
          refs.length < 2
            ? trans.__('Tick at least two trials to compare them')
            : refs.length > MOST_COMPARED
              ? trans.__('At most %1 trials can be compared at once', MOST_COMPARED)
              : trans.__('Curves, configurations and what differs, side by side')
        }
        onClick={() => openCompare(...refs)}
      >
        {trans.__('Compare')}
      </button>
      {going.length > 0 && (
        <button
          type="button"
          className="wb-Button"
          title={trans.__('Stop the selected trials that train; results are kept')}
          onClick={() => void each('workbench:stop', going)}
        >
          {trans._n('Stop %1 trial', 'Stop %1 trials', going.length, going.length)}
        </button>
      )}
      <button
        type="button"
        className="wb-Button"
        title={trans.__('Cleaning up never deletes pinned items')}
        onClick={() => void each('workbench:pin', selected)}
      >
        {trans._n('Pin %1 trial', 'Pin %1 trials', selected.length, selected.length)}
      </button>
    </span>
  );
}

function wrong({ word, why }: NonNullable<Filter['error']>, { trans }: IContext): string {
  return why === 'column'
    ? trans.__('“%1” is not a column. Write a column, a comparison and a value.', word)
    : why === 'number'
      ? trans.__('“%1” is not a number.', word)
      : trans.__('Something is missing after “%1”.', word);
}
