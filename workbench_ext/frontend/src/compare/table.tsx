/** Results and configurations, one column for each trial. Rows in which trials differ are marked and come first. */

import * as React from 'react';

import { IPageContext } from '../experiment/context';
import { measurementsOf } from '../experiment/follow';
import { Selection } from '../experiment/selection';
import { IColouring } from '../parameters/colouring';
import { IGoal, IMeasured, ITrial } from '../server/api';
import { aligned, shown } from '../numbers';
import { numeric } from '../curves/thin';
import { Value } from '../trial/facts';
import { StateMark, took } from '../words';
import { IMember } from './lineup';
import { IRow, apart, bestOf } from './rows';

export function ManyTable(props: {
  context: IPageContext;
  members: readonly IMember[];
  rows: readonly (ITrial | undefined)[];
  /** The goal of all of them; null if they have several. */
  goal: IGoal | null;
  colours: IColouring;
  selection: Selection;
  onOpen(place: number): void;
  onRemove: ((place: number) => void) | null;
}): React.JSX.Element {
  const { context, members, rows, goal, colours, selection, onOpen, onRemove } = props;
  const { trans } = context;
  const measured = useMeasuredOf(members);
  const [folded, setFolded] = React.useState(true);
  const { differing, equal } = apart(rows.map(row => row?.configuration ?? {}));
  const metric = goal?.metric ?? trans.__('its goal');
  const bests = members.map((_, place) => {
    const own = measured[place]?.best;
    return typeof own === 'number' ? own : numeric(rows[place]?.best ?? rows[place]?.value);
  });
  const format = aligned(bests);
  const winners = goal ? bestOf(bests, goal.mode) : [];
  const cell = (place: number, value: React.ReactNode, more = '') => (
    <td
      key={place}
      className={`${selection.hovered === place ? 'wb-mod-hovered' : ''} ${more}`}
      onMouseEnter={() => selection.hover(place)}
    >
      {value}
    </td>
  );
  const line = (name: string, of: (place: number) => React.ReactNode, more?: (place: number) => string) => (
    <tr key={name}>
      <th scope="row">{name}</th>
      {members.map((_, place) => cell(place, of(place), more?.(place)))}
    </tr>
  );
  const entry = ({ name, values }: IRow<unknown>, differs: boolean) => (
    <tr key={name} className={differs ? 'wb-Many-differs' : ''}>
      <th scope="row">
        {name}
        {differs && <span className="wb-visually-hidden"> {trans.__('(differs)')}</span>}
      </th>
      {values.map((value, place) =>
        cell(place, value === undefined ? '–' : typeof value === 'number' ? shown(value) : <Value value={value} />)
      )}
    </tr>
  );
  return (
    <section className="wb-Part" aria-label={trans.__('Results and configuration')}>
      <h4>{trans.__('Results and configuration')}</h4>
      <div className="wb-Many-scroller" onMouseLeave={() => selection.hover(null)}>
        <table className="wb-Compare-table wb-mod-numbers wb-Many-table">
          <thead>
            <tr>
              <th scope="col">{trans.__('Trial')}</th>
              {members.map(({ ref }, place) => (
                <th
                  key={place}
                  scope="col"
                  className={selection.hovered === place ? 'wb-mod-hovered' : ''}
                  onMouseEnter={() => selection.hover(place)}
                >
                  <span className="wb-Legend-mark" style={{ background: colours.of(place) }} aria-hidden="true" />{' '}
                  <button type="button" className="wb-Link" onClick={() => onOpen(place)}>
                    {ref}
                  </button>
                  {onRemove && (
                    <button
                      type="button"
                      className="wb-Many-remove"
                      title={trans.__('Compare the others without %1', ref)}
                      aria-label={trans.__('Compare the others without %1', ref)}
                      onClick={() => onRemove(place)}
                    >
                      ✕
                    </button>
                  )}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {line(
              trans.__('best %1', metric),
              place => (
                <>
                  {Number.isFinite(bests[place]) ? format.of(bests[place]!) : '–'}
                  {winners.includes(place) && <span className="wb-Many-best"> {trans.__('best')}</span>}
                </>
              ),
              place => (winners.includes(place) ? 'wb-mod-best' : '')
            )}
            {line(trans.__('last %1', metric), place => shown(rows[place]?.value))}
            {line(trans.__('steps'), place => rows[place]?.step ?? 0)}
            {line(trans.__('duration'), place => {
              const seconds = measured[place]?.duration;
              return typeof seconds === 'number' ? took(seconds, trans) : '–';
            })}
            {line(trans.__('slot'), place => measured[place]?.slot ?? '–')}
            {line(trans.__('state'), place => {
              const row = rows[place];
              return row ? <StateMark state={row.state} since={row.since} trans={trans} /> : '–';
            })}
          </tbody>
          <tbody>
            {differing.map(row => entry(row, true))}
            {equal.length > 0 && (
              <tr>
                <th scope="row" colSpan={members.length + 1}>
                  <button
                    type="button"
                    className="wb-Section-toggle"
                    aria-expanded={!folded}
                    onClick={() => setFolded(!folded)}
                  >
                    <span className="wb-Section-caret" aria-hidden="true" />
                    {trans._n('%1 equal hyperparameter', '%1 equal hyperparameters', equal.length, equal.length)}
                  </button>
                </th>
              </tr>
            )}
            {!folded && equal.map(row => entry(row, false))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** What was measured of each of them. */
function useMeasuredOf(members: readonly IMember[]): readonly (IMeasured | undefined)[] {
  const [, again] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    const models = [...new Set(members.map(({ experiment }) => measurementsOf(experiment)))];
    models.forEach(model => model.changed.connect(again));
    again();
    return () => models.forEach(model => model.changed.disconnect(again));
  }, [members]);
  return members.map(({ experiment, number }) => measurementsOf(experiment).measured.get(number));
}
