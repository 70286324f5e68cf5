/** The header of the table: sorting, widths, and a filter for each column. */

import { TranslationBundle } from '@jupyterlab/translation';
import { Header, Table } from '@tanstack/react-table';
import * as React from 'react';

import { ITrial } from '../server/api';
import { IColumn } from './columns';
import { columnTest } from './filter';

interface IProps {
  table: Table<ITrial>;
  trans: TranslationBundle;
  width: number;
  perColumn: boolean;
  /** Whether all rows are selected, and whether some are. */
  chosen: boolean;
  some: boolean;
  onAll(all: boolean): void;
}

export function Head(props: IProps): React.JSX.Element {
  const { table, trans, width, chosen, some, perColumn } = props;
  const headers = table.getHeaderGroups()[0]!.headers;
  return (
    <div className="wb-Table-head" role="rowgroup" style={{ width }}>
      <div className="wb-Table-row" role="row" aria-rowindex={1}>
        <span className="wb-Table-check" role="columnheader">
          <input
            type="checkbox"
            checked={chosen}
            ref={box => {
              if (box) {
                box.indeterminate = some && !chosen;
              }
            }}
            aria-label={trans.__('Select all trials that pass the filter')}
            onChange={event => props.onAll(event.target.checked)}
          />
        </span>
        <span className="wb-Table-more" role="columnheader" aria-label={trans.__('Actions')} />
        {headers.map(header => (
          <HeadCell key={header.id} header={header} trans={trans} />
        ))}
      </div>
      {perColumn && (
        <div className="wb-Table-row wb-Table-filters" role="row">
          <span className="wb-Table-check" role="gridcell" />
          <span className="wb-Table-more" role="gridcell" />
          {headers.map(({ id, column, getSize }) => {
            const text = (column.getFilterValue() as string | undefined) ?? '';
            const wrong = columnTest(text) === null;
            return (
              <span key={id} className="wb-Table-cell" role="gridcell" style={{ width: getSize() }}>
                <input
                  type="text"
                  value={text}
                  spellCheck={false}
                  aria-label={trans.__('Filter of %1', id)}
                  aria-invalid={wrong}
                  placeholder={trans.__('< 0.1, a..b, text')}
                  title={wrong ? trans.__('A comparison needs a number') : undefined}
                  onChange={event => column.setFilterValue(event.target.value || undefined)}
                />
              </span>
            );
          })}
        </div>
      )}
    </div>
  );
}

function HeadCell({ header, trans }: { header: Header<ITrial, unknown>; trans: TranslationBundle }): React.JSX.Element {
  const { column } = header;
  const sorted = column.getIsSorted();
  const turn = column.getSortIndex();
  const label = String(column.columnDef.header);
  return (
    <span
      className={(column.columnDef.meta as IColumn).number ? 'wb-Table-cell wb-mod-number' : 'wb-Table-cell'}
      role="columnheader"
      style={{ width: header.getSize() }}
      aria-sort={sorted === 'asc' ? 'ascending' : sorted === 'desc' ? 'descending' : 'none'}
    >
      <button
        type="button"
        title={trans.__('%1: click to sort, with Shift by several columns', label)}
        onClick={column.getToggleSortingHandler()}
      >
        <span className="wb-Table-name">{label}</span>
        {sorted && (
          <span className="wb-Table-sorted" aria-hidden="true">
            {sorted === 'asc' ? '▲' : '▼'}
            {turn > 0 && <sub>{turn + 1}</sub>}
          </span>
        )}
      </button>
      <span
        className="wb-Table-edge"
        aria-hidden="true"
        onMouseDown={header.getResizeHandler()}
        onTouchStart={header.getResizeHandler()}
        onDoubleClick={() => column.resetSize()}
      />
    </span>
  );
}
