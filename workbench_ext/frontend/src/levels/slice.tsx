/** One small picture for each hyperparameter: the goal at a level against its values. */

import * as React from 'react';

import { Choice } from '../chart/controls';
import { Plot } from '../chart/plot';
import { Hovered } from '../charts/hovered';
import { IContext } from '../experiment/context';
import { useKept, useSeen, useSignal } from '../hooks';
import { IParameter } from '../parameters/parameters';
import { IValue, values } from '../parameters/values';
import { levelPicture } from './picture';
import { IShared, useShared } from './shared';
import { Level, LevelStatus, Waits } from './status';

/** Pixels beyond the visible part within which pictures are drawn already. */
const AHEAD = 200;
const RADIUS = 3.5;

export function SliceView({ context }: { context: IContext }): React.JSX.Element {
  const { trans, state } = context;
  const [by, setBy] = useKept(state, 'slice.colour', 'value');
  const shared = useShared(context, by);
  const { known, trials, goal, chosen } = shared;
  const waits = chosen.waits ?? (known.length === 0 ? trans.__('The search has no hyperparameters.') : null);
  return (
    <div className="wb-View wb-Charts wb-Slice">
      <div className="wb-Controls" role="toolbar" aria-label={trans.__('What the slices show')}>
        <Level shared={shared} />
        <Choice
          label={trans.__('Colour')}
          value={by}
          onChange={setBy}
          options={[
            ['value', goal.label],
            ['state', trans.__('state')],
            ...known.map(({ name }) => [`p:${name}`, name] as [string, string])
          ]}
        />
      </div>
      <Waits words={waits} />
      {waits === null && (
        <>
          <LevelStatus shared={shared} shown={trials.length}>
            <Hovered context={context} />
          </LevelStatus>
          <div className="wb-Charts-all">
            <div className="wb-Charts-grid">
              {known.map(parameter => (
                <Slice key={parameter.name} parameter={parameter} shared={shared} />
              ))}
            </div>
          </div>
        </>
      )}
    </div>
  );
}

function Slice({ parameter, shared }: { parameter: IParameter; shared: IShared }): React.JSX.Element {
  const { context, goal, theme, trials } = shared;
  const { trans } = context;
  const host = React.useRef<HTMLElement>(null);
  const seen = useSeen(host, '.wb-Charts-all', AHEAD);
  const x = React.useMemo(
    () => values({ parameters: [parameter], goal: null, measures: [], measured: new Map() }, trans)[0]!,
    [parameter, trans]
  );
  const picture = React.useMemo(
    () =>
      levelPicture({
        shared: seen ? shared : { ...shared, trials: [] },
        x,
        y: goal,
        logX: parameter.log,
        radius: RADIUS
      }),
    // eslint-disable-next-line react-hooks/exhaustive-deps -- `shared` is a new object at each rendering: what is in it counts
    [shared.trials, shared.colours, shared.selected, theme, x, goal, parameter.log, seen]
  );
  const having = trials.filter(trial => Number.isFinite(x.of(trial))).length;
  const summary = trans._n(
    '%1 trial: %2 against %3.',
    '%1 trials: %2 against %3.',
    picture.order.length,
    goal.label,
    parameter.name
  );
  return (
    <figure className="wb-Chart" ref={host} aria-label={parameter.name}>
      <figcaption>
        <span className="wb-Chart-name" title={parameter.name}>
          {parameter.name}
        </span>
        {having < trials.length && (
          <span className="wb-Slice-having">{trans.__('in %1 of %2 trials', having, trials.length)}</span>
        )}
        <Pointed shared={shared} x={x} />
      </figcaption>
      <Plot context={context} picture={picture} theme={theme} mode="select" summary={summary} onView={noView} small />
    </figure>
  );
}

/** Both values of the trial that any of the pictures points at. */
function Pointed({ shared, x }: { shared: IShared; x: IValue }): React.JSX.Element | null {
  const { context, goal } = shared;
  const { experiment, selection, trans } = context;
  useSignal(selection.changed);
  const trial = selection.hovered === null ? undefined : experiment.trials.get(selection.hovered);
  const value = trial ? goal.of(trial) : NaN;
  if (!trial || Number.isNaN(value)) {
    return null;
  }
  const place = x.of(trial);
  return (
    <span className="wb-Chart-value" aria-hidden="true">
      {Number.isNaN(place) ? trans.__('not set') : x.text(place)} → {goal.text(value)}
    </span>
  );
}

/** Small pictures are not zoomed. */
function noView(): void {}
