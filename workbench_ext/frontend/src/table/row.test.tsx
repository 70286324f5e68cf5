/** @jest-environment node */
import { Column } from '@tanstack/react-table';
import * as React from 'react';
import { renderToStaticMarkup } from 'react-dom/server';

import { Selection } from '../experiment/selection';
import { IParameter } from '../parameters/parameters';
import { ITrial } from '../server/api';
import { columns } from './columns';
import { parse } from './filter';
import { TableRow } from './row';

const trans = {
  __: (text: string, ...values: unknown[]) =>
    values.reduce<string>((words, value, place) => words.replace(`%${place + 1}`, String(value)), text)
} as never;

/** The cells of a trial's row, by the id of their column. */
function cells(trial: Partial<ITrial>, known: readonly IParameter[]): Record<string, string> {
  const found = columns(known, { metric: 'loss', mode: 'min' }, trans);
  const shown = found.map(
    meta => ({ id: meta.id, columnDef: { meta }, getSize: () => 100 }) as unknown as Column<ITrial>
  );
  const markup = renderToStaticMarkup(
    <TableRow
      {...{ id: 'row', row: {} as never, trial: trial as ITrial, measured: null, columns: shown, formats: new Map() }}
      {...{ shape: '', top: 0, place: 2, selected: false, active: false, hovered: false, colour: 'red', trans }}
      {...{ selection: new Selection(), onPick: noop, onTick: noop, onOpen: noop, onMenu: noop }}
    />
  );
  const texts = markup
    .split('role="gridcell"')
    .slice(3)
    .map(cell => cell.replace(/^[^>]*>/, '').replace(/<[^>]*>?/g, ''));
  return Object.fromEntries(found.map(({ id }, place) => [id, texts[place]!]));
}

function noop(): void {}

test('a hyperparameter that is called as the goal, or as the state of a trial, is shown as what it is', () => {
  const category = { kind: 'category', log: false, low: 0, high: 1, categories: ['mse', 'mae'] } as const;
  const known = ['loss', 'state'].map(name => ({ ...category, name }));
  const configuration = { loss: 'mse', state: 'mae' };
  const found = cells({ number: 0, label: 't0000', state: 'failed', value: 'nan', configuration }, known);
  expect(found).toMatchObject({ loss: 'diverged', 'configuration.loss': 'mse', 'configuration.state': 'mae' });
});

test('a filter can tell a goal that is nan from one that nothing was reported of', () => {
  const goal = columns([], { metric: 'loss', mode: 'min' }, trans).find(({ id }) => id === 'loss')!;
  const { test } = parse('loss = nan', ['loss']);
  const found = (value: ITrial['value']) => test!(() => goal.of({ value, best: null } as ITrial));
  expect(['nan', null, 0.5, 'inf'].map(value => found(value as ITrial['value']))).toEqual([true, false, false, false]);
});
