/** Rows of the table as comma-separated values (RFC 4180), for other programs. Law: pure, apart from `save`. */

import { ITrial } from '../server/api';
import { IColumn } from './columns';
import { Cell } from './filter';

/** The columns of these trials: names in the first line, whole numbers, and nothing where there is no value. */
export function csv(columns: readonly Pick<IColumn, 'id' | 'of'>[], trials: readonly ITrial[]): string {
  const lines = [columns.map(({ id }) => id), ...trials.map(trial => columns.map(({ of }) => of(trial) ?? ''))];
  return lines.map(line => line.map(field).join(',') + '\r\n').join('');
}

function field(value: NonNullable<Cell>): string {
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Let the browser save a text as a file. */
export function save(name: string, text: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: 'text/csv;charset=utf-8' }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
