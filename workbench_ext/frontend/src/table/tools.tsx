/** The tools above the table: the filter, the columns, and inserting into the notebook. */

import { Table } from '@tanstack/react-table';
import * as React from 'react';

import { ITrial } from '../server/api';
import { IColumn } from './columns';
import { IContext } from '../experiment/context';
import { Filter } from './filter';
import { Ticked } from './ticked';
import { useSelected } from '../hooks';
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
          {trans.__('%1 of %2 trials', found.length, experiment.trials.size)}
          <span className={selected.size > 0 ? '' : 'wb-mod-none'} aria-hidden={selected.size === 0}>
            {trans.__(', %1 selected', selected.size)}
          </span>
        </span>
      )}
      <span className="wb-Controls-gap" />
      <Ticked context={context} columns={props.columns} table={props.table} />
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

function wrong({ word, why }: NonNullable<Filter['error']>, { trans }: IContext): string {
  return why === 'column'
    ? trans.__('“%1” is not a column. Write a column, a comparison and a value.', word)
    : why === 'number'
      ? trans.__('“%1” is not a number.', word)
      : trans.__('Something is missing after “%1”.', word);
}
