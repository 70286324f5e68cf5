/** Trials as points: any two of their values against each other, the goal as colour. */

import * as React from 'react';

import { LegendBar } from '../chart/legend';
import { jitter } from '../chart/parallel';
import { IPicture, IView, Mode, Plot } from '../chart/plot';
import { IScale } from '../chart/scale';
import { useTheme } from '../chart/theme';
import { IFact, trialFacts } from '../chart/tip';
import { IContext } from '../experiment/context';
import { useKept, useSelected, useSignal } from '../hooks';
import { useColouring, useMeasured, useMeasures, useParameters, useRanked } from './memory';
import { axisOf, IValue, values } from './values';
import { Choice, Modes, Tick } from '../chart/controls';

interface IPoint {
  readonly trial: number;
  readonly x: number;
  readonly y: number;
  readonly failed: boolean;
}

const RADIUS = 4.5;
/** Maximum distance in pixels at which the pointer selects a point. */
const NEAR = 18;
/** Half of a category's room over which its points spread. */
const SPREAD = 0.3;

export function ScatterView({ context }: { context: IContext }): React.JSX.Element {
  const { experiment, trans, state, selection } = context;
  const turn = useSignal(experiment.changed);
  const theme = useTheme(context);
  const selected = useSelected(selection);
  const { trials, goal } = experiment;
  const known = useParameters(experiment);
  const [xId, setX] = useKept(state, 'scatter.x', '');
  const [yId, setY] = useKept(state, 'scatter.y', 'goal');
  const [by, setBy] = useKept(state, 'scatter.colour', 'value');
  const [logs, setLogs] = useKept<Record<string, boolean>>(state, 'scatter.log', {});
  const [mode, setMode] = useKept<Mode>(state, 'scatter.mode', 'select');
  const [view, setView] = React.useState<IView | null>(null);
  const measures = useMeasures(experiment, known, trans);
  const measured = useMeasured(experiment, xId.startsWith('m:') || yId.startsWith('m:'));
  const all = React.useMemo(
    () => values({ parameters: known, goal, measures, measured }, trans),
    // eslint-disable-next-line react-hooks/exhaustive-deps -- each answer brings a goal of its own: its metric is what counts
    [known, goal?.metric, measures, measured]
  );
  const xValue = all.find(({ id }) => id === xId) ?? all[0]!;
  const yValue = all.find(({ id }) => id === yId) ?? all.find(({ id }) => id === 'goal') ?? all[0]!;
  const logX = logs[xValue.id] ?? xValue.parameter?.log ?? false;
  const logY = logs[yValue.id] ?? yValue.parameter?.log ?? false;
  React.useEffect(() => setView(null), [xValue.id, yValue.id, logX, logY]);

  const order = useRanked(experiment, turn);
  const colours = useColouring(by, experiment, known, order, theme.dark, trans);
  const points = React.useMemo(() => {
    const spreadX = xValue.parameter?.kind === 'category' ? SPREAD : 0;
    const spreadY = yValue.parameter?.kind === 'category' ? SPREAD : 0;
    return order.map((trial): IPoint => ({
      trial: trial.number,
      x: xValue.of(trial) + spreadX * jitter(trial.number),
      y: yValue.of(trial) + spreadY * jitter(trial.number * 7 + 3),
      failed: trial.state === 'failed'
    }));
  }, [order, xValue, yValue]);
  const placed = React.useMemo(
    () => points.filter(({ x, y }) => Number.isFinite(x) && Number.isFinite(y) && (!logX || x > 0) && (!logY || y > 0)),
    [points, logX, logY]
  );

  const picture = React.useMemo<IPicture>(() => {
    const found = new Map(placed.map(point => [point.trial, point]));
    const near = (left: number, top: number, x: IScale, y: IScale) => {
      let [least, trial]: [number, number | null] = [NEAR * NEAR, null];
      for (const point of placed) {
        const away = (x.of(point.x) - left) ** 2 + (y.of(point.y) - top) ** 2;
        // Of equal ones, the first, which is better and on top.
        if (away < least) {
          [least, trial] = [away, point.trial];
        }
      }
      return trial;
    };
    return {
      x: axisOf(
        xValue,
        placed.map(({ x }) => x),
        logX,
        view?.x
      ),
      y: axisOf(
        yValue,
        placed.map(({ y }) => y),
        logY,
        view?.y
      ),
      data: [placed, colours, selected, theme],
      order: placed.map(({ trial }) => trial),
      nearest: near,
      within: (box, x, y) =>
        placed
          .filter(point => {
            const [left, top] = [x.of(point.x), y.of(point.y)];
            return left >= box.left && left <= box.right && top >= box.top && top <= box.bottom;
          })
          .map(({ trial }) => trial),
      hit: (number, x, y) => {
        const [point, trial] = [found.get(number), trials.get(number)];
        const own = (value: IValue, at: number): IFact[] =>
          value.id === 'goal' || value.id.startsWith('p:') ? [] : [[value.label, value.text(at)]];
        return point && trial
          ? {
              trial: number,
              left: x.of(point.x),
              top: y.of(point.y),
              facts: [...own(xValue, point.x), ...own(yValue, point.y), ...trialFacts(trial, context)]
            }
          : null;
      },
      point: (paper, x, y, number) => {
        const point = found.get(number);
        if (point) {
          dot(paper, x.of(point.x), y.of(point.y), RADIUS + 5, theme.page);
          dot(paper, x.of(point.x), y.of(point.y), RADIUS + 3.5, theme.text);
          dot(paper, x.of(point.x), y.of(point.y), RADIUS + 2, colours.of(number));
        }
      },
      paint: (paper, x, y) => {
        const choosing = selected.size > 0;
        // The best last, so that they are on top; unselected ones first.
        for (const chosen of choosing ? [false, true] : [true]) {
          for (const point of [...placed].reverse()) {
            if (choosing && selected.has(point.trial) !== chosen) {
              continue;
            }
            const [left, top] = [x.of(point.x), y.of(point.y)];
            paper.globalAlpha = chosen ? (placed.length > 2000 ? 0.6 : 0.85) : 0.25;
            const colour = chosen ? colours.of(point.trial) : theme.muted;
            if (point.failed) {
              cross(paper, left, top, colour);
            } else {
              dot(paper, left, top, chosen ? RADIUS : RADIUS - 1.5, colour);
            }
          }
        }
        paper.globalAlpha = 1;
        const best = found.get(experiment.row?.best?.number ?? -1);
        if (best) {
          paper.strokeStyle = theme.text;
          paper.lineWidth = 1.5;
          paper.beginPath();
          paper.arc(x.of(best.x), y.of(best.y), RADIUS + 3, 0, 2 * Math.PI);
          paper.stroke();
        }
      }
    };
    // eslint-disable-next-line react-hooks/exhaustive-deps -- trials change in place: `placed` says when
  }, [placed, colours, selected, theme, view, xValue, yValue, logX, logY]);

  const options = all.map(({ id, label, group }) => ({ value: id, label, group }));
  const canLog = ({ parameter }: IValue) => parameter === null || (parameter.kind === 'number' && parameter.low > 0);
  const summary =
    trans._n('%1 trial: %2 against %3.', '%1 trials: %2 against %3.', placed.length, yValue.label, xValue.label) +
    ' ' +
    trans.__(
      'Up and down go through the trials from the best, Enter opens one, Space selects it; the table lists them.'
    );
  return (
    <div className="wb-View wb-Scatter">
      <div className="wb-Controls" role="toolbar" aria-label={trans.__('What the points show')}>
        <Choice label={trans.__('Across')} value={xValue.id} onChange={setX} options={options} />
        <Choice label={trans.__('Up')} value={yValue.id} onChange={setY} options={options} />
        <Choice
          label={trans.__('Colour')}
          value={by}
          onChange={setBy}
          options={[
            ['value', goal?.metric ?? trans.__('value')],
            ['state', trans.__('state')],
            ...known.map(({ name }) => [`p:${name}`, name] as [string, string])
          ]}
        />
        {canLog(xValue) && (
          <Tick label={trans.__('log x')} value={logX} onChange={on => setLogs({ ...logs, [xValue.id]: on })} />
        )}
        {canLog(yValue) && (
          <Tick label={trans.__('log y')} value={logY} onChange={on => setLogs({ ...logs, [yValue.id]: on })} />
        )}
        <span className="wb-Controls-gap" />
        <Modes trans={trans} mode={mode} onMode={setMode} zoomed={view !== null} onReset={() => setView(null)} />
      </div>
      <div className="wb-Under">
        <LegendBar legend={colours.legend} />
        <span className="wb-Count" role="status">
          {selected.size > 0
            ? trans.__('%1 of %2 selected', selected.size, trials.size)
            : trans.__('%1 of %2 trials have both values', placed.length, trials.size)}
          {selected.size > 0 && (
            <button type="button" className="wb-Link" onClick={() => selection.clear()}>
              {trans.__('clear')}
            </button>
          )}
        </span>
      </div>
      <Plot context={context} picture={picture} theme={theme} mode={mode} summary={summary} onView={setView} />
    </div>
  );
}

function dot(paper: CanvasRenderingContext2D, left: number, top: number, radius: number, colour: string): void {
  paper.fillStyle = colour;
  paper.beginPath();
  paper.arc(left, top, radius, 0, 2 * Math.PI);
  paper.fill();
}

function cross(paper: CanvasRenderingContext2D, left: number, top: number, colour: string): void {
  paper.strokeStyle = colour;
  paper.lineWidth = 2;
  paper.beginPath();
  paper.moveTo(left - 3.5, top - 3.5);
  paper.lineTo(left + 3.5, top + 3.5);
  paper.moveTo(left - 3.5, top + 3.5);
  paper.lineTo(left + 3.5, top - 3.5);
  paper.stroke();
}
