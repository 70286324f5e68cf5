/** The sidebar's list of experiments: a filter, and rows that mouse and keyboard pick. */

import { TranslationBundle } from '@jupyterlab/translation';
import { defaultRangeExtractor, useVirtualizer } from '@tanstack/react-virtual';
import * as React from 'react';

import { IExperiment } from '../api';
import { ExperimentsModel } from '../experiments';
import { useSignal } from '../hooks';
import { stateWord } from '../words';
import { EVERYTHING, IFilter, filtered, tagsOf } from './filter';
import { Picks } from './picks';
import { Row } from './row';

/** Height of a row in pixels before it is measured. */
const ROW = 68;

const STATES = ['running', 'waiting', 'paused', 'stopping', 'completed', 'stopped', 'failed'];

export interface IList {
  readonly model: ExperimentsModel;
  readonly picks: Picks;
  readonly trans: TranslationBundle;
  /** Show an experiment's page. */
  open(experiment: string): void;
  /** Run one of our commands on what is picked. */
  act(command: string): void;
}

export function ExperimentList(props: IList): React.JSX.Element {
  const { model, picks, trans } = props;
  useSignal(model.changed);
  const [filter, setFilter] = React.useState(EVERYTHING);
  const experiments = model.experiments ?? [];
  const rows = React.useMemo(() => filtered(experiments, filter), [experiments, filter]);
  React.useLayoutEffect(() => {
    picks.rows = rows.map(({ id }) => id);
  }, [picks, rows]);
  return (
    <>
      {experiments.length > 0 && (
        <Filter
          filter={filter}
          tags={tagsOf(experiments)}
          trans={trans}
          onChange={setFilter}
          found={rows.length}
          all={experiments.length}
        />
      )}
      <Status model={model} trans={trans} nothing={rows.length === 0} />
      <Picked {...props} />
      <Rows {...props} rows={rows} />
    </>
  );
}

/** What is to be said of the list as a whole, where anything is. */
function Status(props: {
  model: ExperimentsModel;
  trans: TranslationBundle;
  nothing: boolean;
}): React.JSX.Element {
  const { model, trans, nothing } = props;
  let text = '';
  if (model.stale && model.experiments !== null) {
    text = trans.__('The server does not answer; this is what it said last.');
  } else if (model.stale) {
    text = trans.__('The experiments cannot be read: %1', model.error ?? '');
  } else if (model.experiments === null) {
    text = trans.__('Reading the store …');
  } else if (model.experiments.length === 0) {
    text = trans.__('No experiments yet. A cell that begins with %1 starts one.', '%%train NAME');
  } else if (nothing) {
    text = trans.__('No experiment matches the filter.');
  }
  return (
    <div
      className={`wb-Experiments-note${model.stale ? ' wb-Stale' : ''}`}
      role="status"
      hidden={!text}
    >
      {text}
    </div>
  );
}

function Filter(props: {
  filter: IFilter;
  tags: readonly string[];
  trans: TranslationBundle;
  found: number;
  all: number;
  onChange: (filter: IFilter) => void;
}): React.JSX.Element {
  const { filter, tags, trans, onChange } = props;
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
      {props.found < props.all && (
        <span className="wb-Filter-found">{trans.__('%1 of %2', props.found, props.all)}</span>
      )}
    </div>
  );
}

/** What can be done with many at once. */
function Picked({ picks, trans, act }: IList): React.JSX.Element | null {
  useSignal(picks.changed);
  const count = picks.picked.size;
  if (count < 2) {
    return null;
  }
  return (
    <div className="wb-Picked" role="toolbar" aria-label={trans.__('Picked experiments')}>
      <span className="wb-Picked-count">{trans.__('%1 picked', count)}</span>
      {count === 2 && (
        <button type="button" className="wb-Button" onClick={() => act('workbench:compare')}>
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

function Rows({
  picks,
  trans,
  open,
  rows
}: IList & { rows: readonly IExperiment[] }): React.JSX.Element {
  useSignal(picks.changed);
  const minute = useMinute();
  const scroller = React.useRef<HTMLDivElement>(null);
  const focus = React.useRef(false);
  const active = rows.findIndex(({ id }) => id === picks.active);
  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    getItemKey: index => rows[index]!.id,
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
      scroller.current
        ?.querySelector<HTMLElement>(`[data-index="${active}"]`)
        ?.focus({ preventScroll: true });
    }
  });
  const press = (event: React.KeyboardEvent) => {
    const modifiers = { also: event.ctrlKey || event.metaKey, through: event.shiftKey };
    if (event.key === 'Enter' && picks.active !== null) {
      event.preventDefault();
      open(picks.active);
    } else if (picks.press(event.key, modifiers)) {
      event.preventDefault();
      event.stopPropagation();
      focus.current = true;
    }
  };
  const click = (event: React.MouseEvent, id: string) => {
    const modifiers = { also: event.ctrlKey || event.metaKey, through: event.shiftKey };
    picks.pick(id, modifiers);
    if (!modifiers.also && !modifiers.through) {
      open(id);
    }
  };
  return (
    <div className="wb-Experiments-scroller" ref={scroller}>
      <div
        className="wb-Experiments-list"
        role="listbox"
        aria-multiselectable="true"
        aria-label={trans.__('Experiments')}
        style={{ height: virtualizer.getTotalSize() }}
        onKeyDown={press}
      >
        {virtualizer.getVirtualItems().map(({ index, start, key }) => {
          const experiment = rows[index]!;
          return (
            <div
              key={key}
              ref={virtualizer.measureElement}
              data-index={index}
              data-experiment={experiment.id}
              className="wb-Experiment"
              role="option"
              aria-selected={picks.picked.has(experiment.id)}
              aria-posinset={index + 1}
              aria-setsize={rows.length}
              tabIndex={index === active ? 0 : -1}
              title={experiment.reason ?? undefined}
              style={{ transform: `translateY(${start}px)` }}
              onClick={event => click(event, experiment.id)}
              onContextMenu={() => picks.pickForMenu(experiment.id)}
            >
              <Row experiment={experiment} trans={trans} minute={minute} />
            </div>
          );
        })}
      </div>
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
