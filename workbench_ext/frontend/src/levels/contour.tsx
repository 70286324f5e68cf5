/** Two hyperparameters against each other: the goal at a level as a field of colours, with the trials on it. */

import * as React from 'react';

import { Choice, Modes } from '../chart/controls';
import { share, spread, viridis, visible } from '../chart/colours';
import { IPicture, IView, Mode, Plot } from '../chart/plot';
import { IScale } from '../chart/scale';
import { IContext } from '../experiment/context';
import { useKept } from '../hooks';
import { IParameter } from '../parameters/parameters';
import { IValue, values } from '../parameters/values';
import { field } from './field';
import { levelPicture } from './picture';
import { IShared, useShared } from './shared';
import { Level, LevelStatus, Waits } from './status';

/** The least pixels of a cell's side, and the most distances between cells and trials that one painting computes. */
const CELL = 5;
const MOST = 3e6;
/** How strong the field is: the trials on it have the same colours, and must be seen. */
const STRENGTH = 0.75;

export function ContourView({ context }: { context: IContext }): React.JSX.Element {
  const { trans, state, experiment } = context;
  const shared = useShared(context, 'value');
  const { known, trials, goal, chosen, theme, colours, selected } = shared;
  const [xName, setX] = useKept(state, 'contour.x', '');
  const [yName, setY] = useKept(state, 'contour.y', '');
  const [mode, setMode] = useKept<Mode>(state, 'contour.mode', 'select');
  const [view, setView] = React.useState<IView | null>(null);
  const all = React.useMemo(
    () => values({ parameters: known, goal: null, measures: [], measured: new Map() }, trans).slice(0, known.length),
    [known, trans]
  );
  const [x, y] = pair(all, xName, yName);
  React.useEffect(() => setView(null), [x, y]);
  const best = experiment.goal?.mode ?? 'max';
  const under = React.useMemo(
    () => (x && y ? fieldOf(shared, x, y, best) : undefined),
    // eslint-disable-next-line react-hooks/exhaustive-deps -- `shared` is a new object at each rendering: what is in it counts
    [trials, goal, theme, x, y, best]
  );
  const picture = React.useMemo(
    () => (x && y ? levelPicture({ shared, x, y, logX: logOf(x), logY: logOf(y), view, under, rimmed: true }) : null),
    // eslint-disable-next-line react-hooks/exhaustive-deps -- the same
    [trials, colours, selected, theme, x, y, view, under]
  );
  const waits =
    chosen.waits ?? (picture ? null : trans.__('A contour needs a search with two hyperparameters or more.'));
  const shown = picture?.order.length ?? 0;
  return (
    <div className="wb-View wb-Contour">
      <div className="wb-Controls" role="toolbar" aria-label={trans.__('What the contour shows')}>
        <Level shared={shared} />
        {x && y && (
          <>
            <Choice label={trans.__('Across')} value={x.id} onChange={setX} options={options(all)} />
            <Choice
              label={trans.__('Up')}
              value={y.id}
              onChange={setY}
              options={options(all.filter(({ id }) => id !== x.id))}
            />
          </>
        )}
        <span className="wb-Controls-gap" />
        <Modes trans={trans} mode={mode} onMode={setMode} zoomed={view !== null} onReset={() => setView(null)} />
      </div>
      <Waits words={waits} />
      {waits === null && picture && x && y && (
        <>
          <LevelStatus shared={shared} shown={shown} />
          <Plot
            context={context}
            picture={picture}
            theme={theme}
            mode={mode}
            summary={
              trans._n(
                '%1 trial: %2 by %3 and %4.',
                '%1 trials: %2 by %3 and %4.',
                shown,
                goal.label,
                x.label,
                y.label
              ) +
              ' ' +
              trans.__('Colours between trials are weighted means of near ones. Up and down go through the trials.')
            }
            onView={setView}
          />
        </>
      )}
    </div>
  );
}

/** The values across and up: the chosen ones, or the first two, numbers first. */
function pair(all: readonly IValue[], xId: string, yId: string): [IValue | null, IValue | null] {
  const order = [...all].sort((a, b) => Number(isNamed(a)) - Number(isNamed(b)));
  const x = all.find(({ id }) => id === xId) ?? order.find(({ id }) => id !== yId) ?? null;
  const y = all.find(({ id }) => id === yId && id !== x?.id) ?? order.find(({ id }) => id !== x?.id) ?? null;
  return [x, y];
}

function options(all: readonly IValue[]): [string, string][] {
  return all.map(({ id, label }) => [id, label]);
}

function isNamed({ parameter }: IValue): boolean {
  return parameter?.kind === 'category';
}

function logOf({ parameter }: IValue): boolean {
  return parameter?.log ?? false;
}

/** Paints the field in cells of the picture; a cell without a near trial stays empty. */
function fieldOf(shared: IShared, x: IValue, y: IValue, mode: 'max' | 'min'): IPicture['paint'] {
  const { trials, goal, theme } = shared;
  const [across, up] = [sharesOf(x.parameter!), sharesOf(y.parameter!)];
  const spots = trials
    .map(trial => ({ x: across(x.of(trial)), y: up(y.of(trial)), value: goal.of(trial) }))
    .filter(spot => Number.isFinite(spot.x) && Number.isFinite(spot.y));
  const valueAt = field(spots, { x: isNamed(x), y: isNamed(y) });
  const ends = spread(trials.map(goal.of), mode);
  return (paper, h: IScale, v: IScale) => {
    if (!ends || spots.length === 0) {
      return;
    }
    const [width, height] = [Math.abs(h.of(h.axis.range[1])), Math.abs(v.of(v.axis.range[0]))];
    const side = Math.max(CELL, Math.ceil(Math.sqrt((width * height * spots.length) / MOST)));
    paper.globalAlpha = STRENGTH;
    for (let left = 0; left < width; left += side) {
      const column = across(h.at(left + side / 2));
      for (let top = 0; top < height; top += side) {
        const value = valueAt(column, up(v.at(top + side / 2)));
        if (!Number.isNaN(value)) {
          paper.fillStyle = viridis(visible(share(value, ends), theme.dark));
          paper.fillRect(left, top, side, side);
        }
      }
    }
    paper.globalAlpha = 1;
  };
}

/** From values to shares of the axis; categories stay numbers. */
function sharesOf({ kind, log, low, high }: IParameter): (value: number) => number {
  if (kind === 'category') {
    return value => value;
  }
  const scaled = (value: number) => (log ? Math.log(value) : value);
  const [from, room] = [scaled(low), scaled(high) - scaled(low) || 1];
  return value => (scaled(value) - from) / room;
}
