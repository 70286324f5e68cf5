/** A row of the table. Law: rendered again only when it changes; users' text is never markup. */

import { TranslationBundle } from '@jupyterlab/translation';
import { Column, Row } from '@tanstack/react-table';
import * as React from 'react';

import { ITrial } from '../server/api';
import { IFormat, shown } from '../numbers';
import { IColumn } from './columns';
import { Cell } from './filter';
import { InexactMark, lostNames } from '../experiment/outcome';
import { Selection } from '../experiment/selection';
import { StateMark, clock, hasDiverged } from '../words';

export const ROW_HEIGHT = 27;

interface IProps {
  id: string;
  row: Row<ITrial>;
  /** A changed trial is another object. */
  trial: ITrial;
  /** A change of what was measured of it. */
  measured: unknown;
  columns: readonly Column<ITrial, unknown>[];
  /** How numbers are shown, by column. */
  formats: ReadonlyMap<string, IFormat>;
  /** A value that changes when other columns are shown, or their widths or formats change. */
  shape: string;
  top: number;
  /** Its position among all rows, counting the header as the first. */
  place: number;
  selected: boolean;
  active: boolean;
  hovered: boolean;
  colour: string;
  trans: TranslationBundle;
  selection: Selection;
  onPick(number: number, event: React.MouseEvent): void;
  /** Its box was clicked; with Shift, all from the last one on are meant. */
  onTick(number: number, range: boolean): void;
  onOpen(number: number): void;
  onMenu(number: number, left: number, top: number): void;
}

export const TableRow = React.memo(function TableRow(props: IProps): React.JSX.Element {
  const { trial, columns, selected, active, hovered, trans, selection } = props;
  const { number } = trial;
  const classes = ['wb-Table-row'];
  if (selected) {
    classes.push('wb-mod-selected');
  }
  if (active) {
    classes.push('wb-mod-active');
  }
  if (hovered) {
    classes.push('wb-mod-hovered');
  }
  return (
    <div
      id={props.id}
      className={classes.join(' ')}
      role="row"
      aria-rowindex={props.place}
      aria-selected={selected}
      style={{ transform: `translateY(${props.top}px)` }}
      onMouseEnter={() => selection.hover(number)}
      onClick={event => props.onPick(number, event)}
      onDoubleClick={() => props.onOpen(number)}
      onContextMenu={event => {
        event.preventDefault();
        event.stopPropagation();
        props.onMenu(number, event.clientX, event.clientY);
      }}
    >
      <span className="wb-Table-check" role="gridcell">
        <input
          type="checkbox"
          tabIndex={-1}
          checked={selected}
          aria-label={trans.__('Select %1', trial.label)}
          onClick={event => {
            event.stopPropagation();
            props.onTick(number, event.shiftKey);
          }}
          onChange={ticked}
        />
      </span>
      <span className="wb-Table-more" role="gridcell">
        <button
          type="button"
          // The keyboard opens the same menu on the row itself.
          tabIndex={-1}
          title={trans.__('Actions')}
          aria-label={trans.__('Actions for %1', trial.label)}
          aria-haspopup="menu"
          onClick={event => {
            event.stopPropagation();
            const { left, bottom } = event.currentTarget.getBoundingClientRect();
            props.onMenu(number, left, bottom);
          }}
          onDoubleClick={event => event.stopPropagation()}
        >
          ⋯
        </button>
      </span>
      {columns.map(column => {
        const of = column.columnDef.meta as IColumn;
        return (
          <span
            key={column.id}
            className={of.number ? 'wb-Table-cell wb-mod-number' : 'wb-Table-cell'}
            role="gridcell"
            style={{ width: column.getSize() }}
          >
            {content(props, of)}
          </span>
        );
      })}
    </div>
  );
}, same);

/** A click ticks a box, also with a key held down; React wants to hear that it is told. */
function ticked(): void {}

function content({ trial, trans, colour, formats }: IProps, column: IColumn): React.ReactNode {
  const cell: Cell = column.of(trial);
  const text = (value: number) => formats.get(column.id)?.of(value) ?? shown(value);
  if (column.own === 'state') {
    return <StateMark state={trial.state} since={trial.since} trans={trans} />;
  }
  if (column.own === 'trial' && lostNames(trial) !== null) {
    return (
      <>
        {trial.label} <InexactMark trial={trial} trans={trans} short={true} />
      </>
    );
  }
  if (column.own === 'goal') {
    if (hasDiverged(trial.value)) {
      return <span title={String(trial.value)}>{trans.__('diverged')}</span>;
    }
    return (
      <>
        {typeof cell === 'number' && (
          <span className="wb-Legend-mark" style={{ background: colour }} aria-hidden="true" />
        )}
        {typeof cell === 'number' && <span title={String(cell)}>{text(cell)}</span>}
      </>
    );
  }
  if (column.own === 'reason' && lostNames(trial) !== null) {
    return (
      <>
        <InexactMark trial={trial} trans={trans} />
        {cell && <span title={String(cell)}>; {cell}</span>}
      </>
    );
  }
  if (typeof cell === 'number') {
    return <span title={column.written?.(trial) ?? String(cell)}>{text(cell)}</span>;
  }
  if (cell === null || cell === undefined) {
    return null;
  }
  const isTime = column.own === 'started' || column.own === 'ended';
  return <span title={String(cell)}>{isTime ? clock(String(cell)) : String(cell)}</span>;
}

/** Whether two rows look the same. Their callbacks always do the same. */
function same(a: IProps, b: IProps): boolean {
  return (
    a.trial === b.trial &&
    a.measured === b.measured &&
    a.shape === b.shape &&
    a.top === b.top &&
    a.place === b.place &&
    a.selected === b.selected &&
    a.active === b.active &&
    a.hovered === b.hovered &&
    a.colour === b.colour
  );
}
