/** All trials as a table: sort, filter, select, and insert into the notebook. The accessible form of every picture. */

import {
  Column,
  ColumnDef,
  ColumnFiltersState,
  ColumnSizingState,
  Row,
  SortingState,
  Table,
  VisibilityState,
  getCoreRowModel,
  getFilteredRowModel,
  getSortedRowModel,
  useReactTable
} from '@tanstack/react-table';
import { useVirtualizer } from '@tanstack/react-virtual';
import * as React from 'react';

import { ITrial } from '../server/api';
import { useTheme } from '../chart/theme';
import { IColouring } from '../parameters/colouring';
import { IColumn, columns, compare, format } from './columns';
import { IFormat } from '../numbers';
import { IContext } from '../experiment/context';
import { Cell, columnTest, parse } from './filter';
import { useKept, useSelected, useSignal } from '../hooks';
import { Measurements } from '../parameters/measures';
import { useColouring, useMeasured, useMeasures, useParameters, useRanked } from '../parameters/memory';
import { openTrialMenu } from '../trial/menu';
import { Head } from './head';
import { ROW_HEIGHT, TableRow } from './row';
import { TableTools } from './tools';

/** Pixels of the box and of the menu's button before the columns. */
const BOXES = 32 + 26;
/** Rows rendered beyond either edge, for scrolling. */
const OVERSCAN = 12;

export function TableView({ context }: { context: IContext }): React.JSX.Element {
  const { experiment, trans, state, selection } = context;
  const turn = useSignal(experiment.changed);
  const theme = useTheme(context);
  const { goal } = experiment;
  const known = useParameters(experiment);
  // By default, the best come first.
  const rows = useRanked(experiment, turn);
  const several = rows.some(({ group }) => typeof group === 'number');
  const colours = useColouring('value', experiment, known, rows, theme.dark, trans);
  const [sorting, setSorting] = useKept<SortingState>(state, 'table.sort', []);
  const [shown, setShown] = useKept<VisibilityState>(state, 'table.columns', {});
  const [sizes, setSizes] = useKept<ColumnSizingState>(state, 'table.sizes', {});
  const [filters, setFilters] = useKept<ColumnFiltersState>(state, 'table.filters', []);
  const [typed, setTyped] = useKept(state, 'table.filter', '');
  const [perColumn, setPerColumn] = useKept<boolean>(state, 'table.perColumn', false);
  const measures = useMeasures(experiment, known, trans);
  const used = [...sorting, ...(perColumn ? filters : [])].map(({ id }) => id);
  // A word of the filter is searched in every column.
  const needed = typed.trim() !== '' || measures.some(({ id }) => shown[id] || used.includes(id));
  const measured = useMeasured(experiment, needed);
  const all = React.useMemo(
    () => columns(known, goal, trans, several, measures, measured),
    // eslint-disable-next-line react-hooks/exhaustive-deps -- each answer brings a goal of its own: its metric is what counts
    [known, goal?.metric, several, measures, measured]
  );

  const filter = React.useMemo(
    () =>
      parse(
        typed,
        all.map(({ id }) => id)
      ),
    [typed, all]
  );
  const definitions = React.useMemo(() => all.map(definition), [all]);
  const kept = React.useMemo(() => {
    const byId = new Map(all.map(column => [column.id, column]));
    return filter.test && ((trial: ITrial) => filter.test(column => byId.get(column)?.of(trial)));
  }, [filter, all]);
  // Its rows remember the values of their columns: what was measured since then needs new rows.
  // eslint-disable-next-line react-hooks/exhaustive-deps
  const data = React.useMemo(() => [...rows], [rows, all]);
  const table = useReactTable({
    data,
    columns: definitions,
    getRowId: trial => String(trial.number),
    state: {
      sorting,
      columnVisibility: { ...Object.fromEntries(all.map(({ id, usual }) => [id, usual])), ...shown },
      columnSizing: sizes,
      columnFilters: perColumn ? filters : NO_FILTERS,
      globalFilter: kept
    },
    onSortingChange: next => setSorting(apply(next, sorting)),
    onColumnSizingChange: next => setSizes(apply(next, sizes)),
    onColumnFiltersChange: next => setFilters(apply(next, filters)),
    globalFilterFn: passes,
    getColumnCanGlobalFilter: column => column.id === all[0]?.id,
    columnResizeMode: 'onChange',
    enableSortingRemoval: true,
    getCoreRowModel: getCoreRowModel(),
    getFilteredRowModel: getFilteredRowModel(),
    getSortedRowModel: getSortedRowModel()
  });
  const found = table.getRowModel().rows;
  const numbers = React.useMemo(() => found.map(({ original }) => original.number), [found]);
  return (
    <div className="wb-View wb-TableView">
      <TableTools
        context={context}
        columns={all}
        table={table}
        typed={typed}
        onTyped={setTyped}
        error={filter.error}
        perColumn={perColumn}
        onPerColumn={setPerColumn}
        onShown={(id, visible) => setShown({ ...shown, [id]: visible })}
        found={numbers}
      />
      <Grid
        context={context}
        table={table}
        found={found}
        numbers={numbers}
        colours={colours}
        measured={measured}
        perColumn={perColumn}
        onAll={() => selection.set(numbers)}
      />
      {found.length === 0 && (
        <p className="wb-Note wb-Over" role="status">
          {rows.length > 0
            ? trans.__('No trial passes the filter.')
            : experiment.row?.trials.begun
              ? trans.__('Reading the trials …')
              : trans.__('No trial has begun yet.')}
        </p>
      )}
    </div>
  );
}

const NO_FILTERS: ColumnFiltersState = [];

function apply<T>(next: T | ((old: T) => T), old: T): T {
  return typeof next === 'function' ? (next as (old: T) => T)(old) : next;
}

function definition(column: IColumn): ColumnDef<ITrial> {
  return {
    id: column.id,
    header: column.label,
    accessorFn: trial => {
      const cell = column.of(trial);
      // Undefined values are last in both directions.
      return cell === null || (typeof cell === 'number' && Number.isNaN(cell)) ? undefined : cell;
    },
    size: column.width,
    minSize: 48,
    meta: column,
    sortUndefined: 'last',
    sortDescFirst: false,
    sortingFn: (a, b, id) => compare(a.getValue<Cell>(id), b.getValue<Cell>(id)),
    filterFn: (row, _, text: string) => columnTest(text)?.(column.of(row.original)) ?? true
  };
}

function passes(row: Row<ITrial>, _: string, kept: ((trial: ITrial) => boolean) | null): boolean {
  return kept === null || kept(row.original);
}

interface IGridProps {
  context: IContext;
  table: Table<ITrial>;
  found: readonly Row<ITrial>[];
  numbers: readonly number[];
  colours: IColouring;
  measured: Measurements;
  perColumn: boolean;
  onAll(): void;
}

/** The rows and their keyboard navigation: one tab stop, and one active row. */
function Grid(props: IGridProps): React.JSX.Element {
  const { context, table, found, numbers, colours } = props;
  const { selection, trans, experiment } = context;
  const scroller = React.useRef<HTMLDivElement>(null);
  const selected = useSelected(selection);
  const hovered = useHovered(context);
  const [active, setActive] = React.useState<number | null>(null);
  const anchor = React.useRef<number | null>(null);
  const virtual = useVirtualizer({
    count: found.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: OVERSCAN,
    scrollMargin: 0
  });
  const activeAt = active === null ? -1 : numbers.indexOf(active);
  const now = React.useRef({ numbers, active });
  now.current = { numbers, active };

  const pick = React.useCallback(
    (number: number, event: { shiftKey: boolean; ctrlKey: boolean; metaKey: boolean }) => {
      const { numbers } = now.current;
      setActive(number);
      if (event.shiftKey && anchor.current !== null) {
        const ends = [numbers.indexOf(anchor.current), numbers.indexOf(number)].sort((a, b) => a - b);
        selection.set(numbers.slice(Math.max(ends[0]!, 0), ends[1]! + 1));
        return;
      }
      anchor.current = number;
      if (event.ctrlKey || event.metaKey) {
        selection.toggle(number);
      } else {
        selection.set([number]);
      }
    },
    [selection]
  );
  const tick = React.useCallback(
    (number: number, range: boolean) => {
      const { numbers } = now.current;
      setActive(number);
      if (range && anchor.current !== null && numbers.includes(anchor.current)) {
        const ends = [numbers.indexOf(anchor.current), numbers.indexOf(number)].sort((a, b) => a - b);
        selection.set([...selection.trials, ...numbers.slice(ends[0], ends[1]! + 1)]);
        return;
      }
      anchor.current = number;
      selection.toggle(number);
    },
    [selection]
  );
  const menu = React.useCallback(
    (number: number, left: number, top: number) => {
      setActive(number);
      openTrialMenu(context, number, left, top);
    },
    [context]
  );

  const key = (event: React.KeyboardEvent) => {
    if (event.target !== event.currentTarget) {
      return;
    }
    const page = Math.max(Math.floor((scroller.current?.clientHeight ?? 0) / ROW_HEIGHT) - 2, 1);
    const moves: Readonly<Record<string, number>> = {
      ArrowDown: activeAt + 1,
      ArrowUp: Math.max(activeAt, 1) - 1,
      PageDown: activeAt + page,
      PageUp: activeAt - page,
      Home: 0,
      End: numbers.length - 1
    };
    const target = moves[event.key];
    const number = active;
    if (target !== undefined) {
      const at = Math.min(Math.max(target, 0), numbers.length - 1);
      const next = numbers[at];
      if (next !== undefined) {
        setActive(next);
        virtual.scrollToIndex(at);
        selection.hover(next);
        if (event.shiftKey) {
          anchor.current ??= number ?? next;
          pick(next, { shiftKey: true, ctrlKey: false, metaKey: false });
        } else {
          anchor.current = next;
        }
      }
    } else if (event.key === ' ' && number !== null) {
      selection.toggle(number);
      anchor.current = number;
    } else if (event.key === 'Enter' && number !== null) {
      context.openTrial(number);
    } else if (event.key === 'Escape') {
      selection.clear();
    } else if (event.key.toLowerCase() === 'a' && (event.ctrlKey || event.metaKey)) {
      props.onAll();
    } else if ((event.key === 'ContextMenu' || (event.key === 'F10' && event.shiftKey)) && number !== null) {
      const box = document.getElementById(rowId(experiment.key, number))?.getBoundingClientRect();
      menu(number, (box?.left ?? 0) + 40, box?.bottom ?? 0);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  const visible = table.getVisibleLeafColumns();
  const wide = visible.reduce((sum, column) => sum + column.getSize(), 0) + BOXES;
  // Rows are rendered again only if they changed.
  const formats = useFormats(visible, context);
  const shape = visible.map(({ id, getSize }) => `${id}:${getSize()}:${formats.get(id)?.key ?? ''}`).join();
  return (
    <div
      className="wb-Table"
      ref={scroller}
      role="grid"
      tabIndex={0}
      aria-label={trans.__('Trials')}
      aria-multiselectable="true"
      aria-rowcount={found.length + 1}
      aria-colcount={visible.length + 2}
      aria-activedescendant={activeAt >= 0 ? rowId(experiment.key, active!) : undefined}
      onKeyDown={key}
      onMouseLeave={() => selection.hover(null)}
    >
      <Head
        table={table}
        trans={trans}
        width={wide}
        perColumn={props.perColumn}
        chosen={numbers.length > 0 && numbers.every(number => selected.has(number))}
        some={selected.size > 0}
        onAll={all => (all ? props.onAll() : selection.clear())}
      />
      <div className="wb-Table-body" role="rowgroup" style={{ height: virtual.getTotalSize(), width: wide }}>
        {virtual.getVirtualItems().map(item => {
          const row = found[item.index]!;
          const { number } = row.original;
          return (
            <TableRow
              key={number}
              id={rowId(experiment.key, number)}
              row={row}
              trial={row.original}
              measured={props.measured.get(number)}
              columns={visible}
              formats={formats}
              shape={shape}
              top={item.start}
              place={item.index + 2}
              selected={selected.has(number)}
              active={number === active}
              hovered={number === hovered}
              colour={colours.of(number)}
              trans={trans}
              selection={selection}
              onPick={pick}
              onTick={tick}
              onOpen={context.openTrial}
              onMenu={menu}
            />
          );
        })}
      </div>
    </div>
  );
}

/** Of all trials, so that a filter changes no number. */
function useFormats(
  columns: readonly Column<ITrial, unknown>[],
  { experiment }: IContext
): ReadonlyMap<string, IFormat> {
  const turn = useSignal(experiment.changed);
  const ids = columns.map(({ id }) => id).join();
  return React.useMemo(() => {
    const trials = [...experiment.trials.values()];
    const shown = columns.map(({ columnDef }) => columnDef.meta as IColumn).filter(({ number }) => number);
    return new Map(shown.map(column => [column.id, format(column, trials)]));
    // eslint-disable-next-line react-hooks/exhaustive-deps -- trials change in place: `turn` says when
  }, [turn, ids, columns, experiment]);
}

function rowId(key: string, number: number): string {
  return `wb-row-${key}-${number}`;
}

function useHovered({ selection }: IContext): number | null {
  const [hovered, setHovered] = React.useState(selection.hovered);
  React.useEffect(() => {
    const slot = () => setHovered(selection.hovered);
    selection.changed.connect(slot);
    return () => {
      selection.changed.disconnect(slot);
    };
  }, [selection]);
  return hovered;
}
