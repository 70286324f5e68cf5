/** The sidebar's list of experiments: a filter, and rows that can be selected by mouse and keyboard. */

import { TranslationBundle } from '@jupyterlab/translation';
import { defaultRangeExtractor, useVirtualizer } from '@tanstack/react-virtual';
import * as React from 'react';

import { IExperiment, IRef } from '../server/api';
import { MOST_COMPARED } from '../compare/rows';
import { Boundary } from '../boundary';
import { useSignal, useSize } from '../hooks';
import { StoreModel, Stores, keyOf, refOf } from '../stores/stores';
import { stateWord } from '../words';
import { IArranged, SORTS, Sort, arranged } from './arrange';
import { EVERYTHING, IFilter, filtered, tagsOf } from './filter';
import { Group } from './group';
import { Picks } from './picks';
import { Row } from './row';

/** Height of a row in pixels before it is measured. */
const ROW = 68;

const STATES = ['running', 'waiting', 'paused', 'stopping', 'completed', 'stopped', 'failed'];

export interface IList {
  readonly stores: Stores;
  readonly picks: Picks;
  readonly trans: TranslationBundle;
  /** Whether the sidebar is on the screen. */
  readonly shown: boolean;
  /** Which groups are open, if there are several. */
  isOpen(store: StoreModel): boolean;
  onToggle(store: StoreModel, open: boolean): void;
  /** The order of the rows. */
  readonly sort: Sort;
  onSort(sort: Sort): void;
  /** Whether the older versions of an experiment are shown below its newest one. */
  isUnfolded(store: StoreModel, name: string): boolean;
  onUnfold(store: StoreModel, name: string, open: boolean): void;
  /** Show an experiment's page. */
  open(ref: IRef): void;
  /** Run one of our commands on the selection. */
  act(command: string): void;
  /** Open the menu of the selection below a button. */
  menu(button: HTMLElement): void;
}

/** The experiments of one store as they are shown. */
interface IGroup {
  readonly store: StoreModel;
  readonly open: boolean;
  readonly arranged: IArranged;
}

export function ExperimentList(props: IList): React.JSX.Element {
  const { stores, picks, trans, shown } = props;
  useSignal(stores.changed);
  useSignal(stores.experimentsChanged);
  useSignal(picks.changed);
  const [filter, setFilter] = React.useState(EVERYTHING);
  const all = stores.shown;
  const grouped = all.length > 1;
  const isSearched = filter !== EVERYTHING && Object.values(filter).some(Boolean);
  const found = useFiltered(all, filter);
  const groups = all.map((store, at) => ({
    store,
    // A filter looks through all of them.
    open: all.length === 1 || isSearched || props.isOpen(store),
    arranged: arranged(
      found[at]!,
      props.sort,
      // What was searched for is not folded away, and neither is what is selected.
      name => isSearched || props.isUnfolded(store, name),
      row => picks.picked.has(keyOfRow(row))
    )
  }));
  const openGroups = groups.filter(({ open }) => open);
  const rows = openGroups.flatMap(({ arranged }) => arranged.rows);
  const passed = all.reduce((sum, _, at) => sum + (groups[at]!.open ? found[at]!.length : 0), 0);
  const known = openGroups.flatMap(({ store }) => store.experiments.experiments ?? []);
  React.useLayoutEffect(() => {
    picks.rows = rows.map(keyOfRow);
  });
  return (
    <>
      {known.length > 0 && (
        <Boundary what={trans.__('The filter')} trans={trans}>
          <Filter
            filter={filter}
            known={known}
            trans={trans}
            onChange={setFilter}
            sort={props.sort}
            onSort={props.onSort}
            found={passed}
          />
        </Boundary>
      )}
      {groups.map(({ store, open }) => (
        <Watching key={store.id} store={store} watched={shown && open} />
      ))}
      {!grouped && <Status stores={stores} store={all[0]} trans={trans} nothing={rows.length === 0} />}
      <Picked {...props} />
      <Groups {...props} groups={groups} grouped={grouped} />
    </>
  );
}

/** The experiments of each store that pass the filter; unchanged stores are not filtered again. */
function useFiltered(stores: readonly StoreModel[], filter: IFilter): readonly (readonly IExperiment[])[] {
  const kept = React.useRef(new Map<string, [readonly IExperiment[], IFilter, readonly IExperiment[]]>());
  return stores.map(({ id, experiments }) => {
    const rows = experiments.experiments ?? NONE;
    const known = kept.current.get(id);
    if (known && known[0] === rows && known[1] === filter) {
      return known[2];
    }
    const found = filtered(rows, filter);
    kept.current.set(id, [rows, filter, found]);
    return found;
  });
}

const NONE: readonly IExperiment[] = [];

function keyOfRow({ store, id }: IExperiment): string {
  return keyOf({ store, experiment: id });
}

/** Fetch a store's experiments while they are on the screen. */
function Watching({ store, watched }: { store: StoreModel; watched: boolean }): null {
  React.useEffect(() => {
    store.experiments.watched = watched;
    return () => {
      store.experiments.watched = false;
    };
  }, [store, watched]);
  return null;
}

/** A message about the list as a whole, if any. */
function Status(props: {
  stores: Stores;
  store: StoreModel | undefined;
  trans: TranslationBundle;
  nothing: boolean;
}): React.JSX.Element {
  const { stores, store, trans, nothing } = props;
  const experiments = store?.experiments.experiments ?? null;
  const error = stores.error?.message ?? store?.experiments.error ?? null;
  let text = '';
  if (error !== null && experiments !== null) {
    text = trans.__('The server does not answer; this is its last answer.');
  } else if (error !== null) {
    text = trans.__('The experiments cannot be read: %1', error);
  } else if (experiments === null) {
    text = trans.__('Reading the store …');
  } else if (experiments.length === 0) {
    text = trans.__('No experiments yet. A cell that begins with %1 starts one.', '%%train NAME');
  } else if (nothing) {
    text = trans.__('No experiment matches the filter.');
  }
  return (
    <div className={`wb-Experiments-note${error !== null ? ' wb-Stale' : ''}`} role="status" hidden={!text}>
      {text}
    </div>
  );
}

function Filter(props: {
  filter: IFilter;
  known: readonly IExperiment[];
  trans: TranslationBundle;
  found: number;
  onChange: (filter: IFilter) => void;
  sort: Sort;
  onSort: (sort: Sort) => void;
}): React.JSX.Element {
  const { filter, known, trans, onChange } = props;
  const tags = tagsOf(known);
  const sorts: Readonly<Record<Sort, string>> = {
    newest: trans.__('newest first'),
    name: trans.__('by name'),
    state: trans.__('by state'),
    best: trans.__('by best value')
  };
  return (
    <div className="wb-Filter" role="search">
      <input
        className="wb-Input wb-Filter-text"
        type="search"
        placeholder={trans.__('Filter')}
        aria-label={trans.__('Filter experiments by text')}
        value={filter.text}
        onChange={event => onChange({ ...filter, text: event.target.value })}
      />
      <select
        className="wb-Input"
        aria-label={trans.__('Sort experiments')}
        value={props.sort}
        onChange={event => props.onSort(event.target.value as Sort)}
      >
        {SORTS.map(sort => (
          <option key={sort} value={sort}>
            {sorts[sort]}
          </option>
        ))}
      </select>
      <select
        className="wb-Input"
        aria-label={trans.__('Filter experiments by state')}
        value={filter.state}
        onChange={event => onChange({ ...filter, state: event.target.value })}
      >
        <option value="">{trans.__('any state')}</option>
        <option value="active">{trans.__('not ended')}</option>
        {STATES.map(state => (
          <option key={state} value={state}>
            {stateWord(state, trans)}
          </option>
        ))}
      </select>
      {(tags.length > 0 || filter.tag) && (
        <select
          className="wb-Input"
          aria-label={trans.__('Filter experiments by tag')}
          value={filter.tag}
          onChange={event => onChange({ ...filter, tag: event.target.value })}
        >
          <option value="">{trans.__('any tag')}</option>
          {[...new Set([...tags, ...(filter.tag ? [filter.tag] : [])])].map(tag => (
            <option key={tag} value={tag}>
              {tag}
            </option>
          ))}
        </select>
      )}
      {props.found < known.length && (
        <span className="wb-Filter-found">{trans.__('%1 of %2', props.found, known.length)}</span>
      )}
    </div>
  );
}

/** Commands for several experiments at once. */
function Picked({ picks, trans, act }: IList): React.JSX.Element | null {
  useSignal(picks.changed);
  const count = picks.picked.size;
  if (count < 2) {
    return null;
  }
  return (
    <div className="wb-Picked" role="toolbar" aria-label={trans.__('Picked experiments')}>
      <span className="wb-Picked-count">{trans.__('%1 picked', count)}</span>
      {count <= MOST_COMPARED && (
        <button type="button" className="wb-Button" onClick={() => act('workbench:compare-picked')}>
          {trans.__('Compare')}
        </button>
      )}
      <button type="button" className="wb-Button" onClick={() => act('workbench:tag')}>
        {trans.__('Tag …')}
      </button>
      <button type="button" className="wb-Button" onClick={() => picks.clear()}>
        {trans.__('Clear')}
      </button>
    </div>
  );
}

/** The rows of all stores in one scroller; with headings if there are several. */
function Groups(props: IList & { groups: readonly IGroup[]; grouped: boolean }): React.JSX.Element {
  const { stores, trans, groups, grouped } = props;
  const scroller = React.useRef<HTMLDivElement>(null);
  const content = React.useRef<HTMLDivElement>(null);
  const focus = React.useRef(false);
  // The position of a group depends on the sizes of the groups above it.
  useSize(content);
  return (
    <div className="wb-Experiments-scroller" ref={scroller}>
      <div ref={content}>
        {groups.map(({ store, open, arranged }) => {
          const { rows } = arranged;
          const list = open && (
            <Rows
              {...props}
              store={store}
              arranged={arranged}
              label={grouped ? trans.__('Experiments in %1', store.label) : trans.__('Experiments')}
              scroller={scroller}
              focus={focus}
            />
          );
          return (
            <Boundary key={store.id} what={trans.__('The list of %1', store.label)} trans={trans}>
              {grouped ? (
                <Group store={store} trans={trans} open={open} onToggle={isOpened => props.onToggle(store, isOpened)}>
                  <Status stores={stores} store={store} trans={trans} nothing={rows.length === 0} />
                  {list}
                </Group>
              ) : (
                list
              )}
            </Boundary>
          );
        })}
      </div>
    </div>
  );
}

function Rows({
  picks,
  trans,
  open,
  menu,
  store,
  arranged,
  onUnfold,
  label,
  scroller,
  focus
}: IList & {
  store: StoreModel;
  arranged: IArranged;
  label: string;
  scroller: React.RefObject<HTMLDivElement>;
  /** Whether the keyboard moved: the active row takes the focus, in any group. */
  focus: React.MutableRefObject<boolean>;
}): React.JSX.Element {
  useSignal(picks.changed);
  const { rows, heads, below } = arranged;
  const minute = useMinute();
  const list = React.useRef<HTMLDivElement>(null);
  const [top, setTop] = React.useState(0);
  // eslint-disable-next-line react-hooks/exhaustive-deps -- rows above may grow at any time; an equal number renders nothing
  React.useLayoutEffect(() => setTop(list.current?.offsetTop ?? 0));
  const active = rows.findIndex(row => keyOfRow(row) === picks.active);
  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    getItemKey: index => rows[index]!.id,
    scrollMargin: top,
    overscan: 8,
    // The row in the tab order exists even when it is out of sight.
    rangeExtractor: range => {
      const shown = new Set(defaultRangeExtractor(range));
      if (active >= 0) {
        shown.add(active);
      }
      return [...shown].sort((a, b) => a - b);
    }
  });
  React.useEffect(() => {
    if (focus.current && active >= 0) {
      focus.current = false;
      virtualizer.scrollToIndex(active);
      list.current?.querySelector<HTMLElement>(`[data-index="${active}"]`)?.focus({ preventScroll: true });
    }
  });
  /** The right key shows the other versions of the active row, the left one hides them, also from one of them. */
  const fold = (key: string): boolean => {
    const row = rows[active];
    if (row === undefined || (key !== 'ArrowRight' && key !== 'ArrowLeft')) {
      return false;
    }
    const head = below.has(row.id)
      ? rows
          .slice(0, active)
          .reverse()
          .find(({ id }) => !below.has(id))
      : row;
    const versions = head && heads.get(head.id);
    if (head === undefined || versions === undefined || (key === 'ArrowRight') === versions.open) {
      return false;
    }
    if (head !== row) {
      picks.pick(keyOfRow(head));
      focus.current = true;
    }
    onUnfold(store, versions.name, !versions.open);
    return true;
  };
  const press = (event: React.KeyboardEvent) => {
    const modifiers = { also: event.ctrlKey || event.metaKey, through: event.shiftKey };
    if (event.key === 'Enter' && picks.active !== null) {
      event.preventDefault();
      open(refOf(picks.active));
    } else if (!modifiers.also && !modifiers.through && !event.altKey && fold(event.key)) {
      event.preventDefault();
      event.stopPropagation();
    } else if (picks.press(event.key, modifiers)) {
      event.preventDefault();
      event.stopPropagation();
      focus.current = true;
    }
  };
  const click = (event: React.MouseEvent, row: IExperiment) => {
    const modifiers = { also: event.ctrlKey || event.metaKey, through: event.shiftKey };
    picks.pick(keyOfRow(row), modifiers);
    if (!modifiers.also && !modifiers.through) {
      open({ store: row.store, experiment: row.id });
    }
  };
  return (
    <div
      ref={list}
      className="wb-Experiments-list"
      role="listbox"
      aria-multiselectable="true"
      aria-label={label}
      style={{ height: virtualizer.getTotalSize() }}
      onKeyDown={press}
    >
      {virtualizer.getVirtualItems().map(({ index, start, key }) => {
        const experiment = rows[index]!;
        const versions = heads.get(experiment.id);
        return (
          <div
            key={key}
            ref={virtualizer.measureElement}
            data-index={index}
            data-experiment={experiment.id}
            className={below.has(experiment.id) ? 'wb-Experiment wb-mod-version' : 'wb-Experiment'}
            role="option"
            aria-selected={picks.picked.has(keyOfRow(experiment))}
            aria-posinset={index + 1}
            aria-setsize={rows.length}
            tabIndex={index === active ? 0 : -1}
            aria-keyshortcuts={versions && (versions.open ? 'ArrowLeft' : 'ArrowRight')}
            title={experiment.reason ?? undefined}
            style={{ transform: `translateY(${start - top}px)` }}
            onClick={event => click(event, experiment)}
            onContextMenu={() => picks.pickForMenu(keyOfRow(experiment))}
          >
            <Boundary what={experiment.label} trans={trans} of={experiment}>
              <Row experiment={experiment} trans={trans} minute={minute} />
            </Boundary>
            {versions && (
              <button
                type="button"
                className="wb-Section-toggle wb-Experiment-versions"
                // The arrow keys do the same on the row itself.
                tabIndex={-1}
                aria-expanded={versions.open}
                aria-label={trans.__('Other versions of %1', versions.name)}
                onClick={event => {
                  event.stopPropagation();
                  onUnfold(store, versions.name, !versions.open);
                }}
              >
                <span className="wb-Section-caret" aria-hidden="true" />
                {trans._n('%1 other version', '%1 other versions', versions.count, versions.count)}
              </button>
            )}
            <button
              type="button"
              className="wb-More wb-Experiment-more"
              // The keyboard opens the same menu on the row itself.
              tabIndex={-1}
              title={trans.__('Actions')}
              aria-label={trans.__('Actions for %1', experiment.label)}
              aria-haspopup="menu"
              onClick={event => {
                event.stopPropagation();
                picks.pickForMenu(keyOfRow(experiment));
                menu(event.currentTarget);
              }}
            >
              ⋯
            </button>
          </div>
        );
      })}
    </div>
  );
}

/** A number that changes each half minute, for ages. */
function useMinute(): number {
  const [minute, setMinute] = React.useState(0);
  React.useEffect(() => {
    const timer = setInterval(() => setMinute(turn => turn + 1), 30000);
    return () => clearInterval(timer);
  }, []);
  return minute;
}
