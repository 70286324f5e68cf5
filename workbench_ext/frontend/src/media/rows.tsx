/** A table as it was logged. Its first rows are shown, and more when they are asked for. */

import * as React from 'react';

import { shown } from '../numbers';
import { ITrialFile } from '../server/api';
import { Cell, ITable, sorted } from './media';
import { ISource, useJson } from './source';

/** Rows that are shown at first, and added by each click. */
const ROWS = 50;

export function Rows(props: { source: ISource; file: ITrialFile; words: string }): React.JSX.Element {
  const { source, file, words } = props;
  const { trans } = source.context;
  const asked = useJson(source, file);
  const table = React.useMemo(() => (isTable(asked.value) ? asked.value : null), [asked.value]);
  const [most, setMost] = React.useState(ROWS);
  const [by, setBy] = React.useState<{ readonly column: number; readonly descending: boolean } | null>(null);
  const rows = React.useMemo(
    () => (table && by ? sorted(table.rows, by.column, by.descending) : (table?.rows ?? [])),
    [table, by]
  );
  if (!table) {
    return (
      <p className="wb-Trial-none">
        {asked.error?.message ?? (asked.value ? trans.__('This file is not a table.') : '…')}
      </p>
    );
  }
  const drawn = Math.min(most, rows.length);
  const sortBy = (column: number) =>
    setBy(now =>
      now?.column !== column ? { column, descending: true } : now.descending ? { column, descending: false } : null
    );
  return (
    <>
      <div className="wb-Rows" role="region" aria-label={words} tabIndex={0}>
        <table>
          <thead>
            <tr>
              {table.columns.map((name, column) => (
                <th
                  key={column}
                  scope="col"
                  className={typeof table.rows[0]?.[column] === 'number' ? 'wb-mod-number' : ''}
                  aria-sort={by?.column !== column ? 'none' : by.descending ? 'descending' : 'ascending'}
                >
                  <button type="button" title={trans.__('Sort by %1', name)} onClick={() => sortBy(column)}>
                    {name}
                    <span aria-hidden="true">{by?.column !== column ? '' : by.descending ? ' ↓' : ' ↑'}</span>
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, drawn).map((row, at) => (
              <tr key={at}>
                {table.columns.map((_, column) => {
                  const cell = row[column] ?? null;
                  return (
                    <td key={column} className={typeof cell === 'number' ? 'wb-mod-number' : ''} title={whole(cell)}>
                      {text(cell)}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p className="wb-Rows-count">
        {table.total > table.rows.length
          ? trans.__('%1 of the first %2 rows; there were %3', drawn, table.rows.length, table.total)
          : drawn < rows.length
            ? trans.__('%1 of %2 rows', drawn, rows.length)
            : trans._n('%1 row', '%1 rows', rows.length)}
        {drawn < rows.length && (
          <button type="button" className="wb-Button" onClick={() => setMost(most + ROWS)}>
            {trans.__('More Rows')}
          </button>
        )}
      </p>
    </>
  );
}

function text(cell: Cell): string {
  return cell === null ? '' : typeof cell === 'number' ? shown(cell) : String(cell);
}

/** All digits of a number that is shown with four. */
function whole(cell: Cell): string | undefined {
  return typeof cell === 'number' && String(cell) !== shown(cell) ? String(cell) : undefined;
}

function isTable(value: unknown): value is ITable {
  const { columns, rows, total } = (value ?? {}) as Partial<Record<keyof ITable, unknown>>;
  return (
    Array.isArray(columns) &&
    columns.every(one => typeof one === 'string') &&
    Array.isArray(rows) &&
    rows.every(row => Array.isArray(row) && row.every(cell => cell === null || typeof cell !== 'object')) &&
    typeof total === 'number'
  );
}
