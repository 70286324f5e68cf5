/** All trials of a metric, live. */

import * as React from 'react';

import { ITrial } from '../server/api';
import { fullView, hitOf, ILine, nearest, paintLines, pointOut, smoothLines } from '../chart/curvepaint';
import { LegendBar } from '../chart/legend';
import { passes } from '../chart/lines';
import { IPicture, IView, Mode, Plot } from '../chart/plot';
import { IAxis, shown } from '../chart/scale';
import { useTheme } from '../chart/theme';
import { IFact, trialFacts } from '../chart/tip';
import { IContext } from '../experiment/context';
import { Curves, Unit } from './curves';
import { useKept, useMetrics, useSelected, useSignal } from '../hooks';
import { useColouring, useParameters, useRanked } from '../parameters/memory';
import { goalValue } from '../parameters/parameters';
import { Choice, Modes, Tick } from '../chart/controls';

export function CurvesView({ context }: { context: IContext }): React.JSX.Element {
  const { experiment, trans, state, selection } = context;
  useSignal(experiment.changed);
  const names = useMetrics(experiment);
  const goal = experiment.goal?.metric ?? names[0] ?? '';
  const [chosen, setMetric] = useKept(state, 'curves.metric', '');
  const metric = names.includes(chosen) ? chosen : goal;
  const [unit, setUnit] = useKept<Unit>(state, 'curves.x', 'step');
  const [weight, setWeight] = useKept<number>(state, 'curves.smooth', 0);
  const [logX, setLogX] = useKept<boolean>(state, 'curves.logX', false);
  const [logY, setLogY] = useKept<boolean>(state, 'curves.logY', false);
  const [whole, setWhole] = useKept<boolean>(state, 'curves.outliers', false);
  const [by, setBy] = useKept(state, 'curves.colour', 'value');
  const [mode, setMode] = useKept<Mode>(state, 'curves.mode', 'zoom');
  const [view, setView] = React.useState<IView | null>(null);
  const [width, setWidth] = React.useState(0);
  const theme = useTheme(context);
  const curves = useCurves(context, metric, unit, width, logX);
  const selected = useSelected(selection);
  React.useEffect(() => setView(null), [metric, unit, logX, logY]);
  useDetail(curves, view);

  const { trials } = experiment;
  const known = useParameters(experiment);
  // Trials change in place: what they looked like is what counts.
  const looks = [...trials.values()].map(({ state, value }) => `${state}${value}`).join();
  const order = useRanked(experiment, looks);
  const colours = useColouring(by, experiment, known, order, theme.dark, trans);
  const paths = curves?.paths ?? null;
  const detail = curves?.detail ?? null;
  const closer = detail && view && detail.low <= view.x[0] && detail.high >= view.x[1] ? detail.paths : paths;
  const lines = React.useMemo(() => smoothLines(paths, weight), [paths, weight]);
  const closerLines = React.useMemo(
    () => (closer === paths ? lines : smoothLines(closer, weight)),
    [closer, paths, lines, weight]
  );
  const all = React.useMemo(() => fullView(lines, logX, logY, whole), [lines, logX, logY, whole]);
  const best = experiment.row?.best?.number ?? null;
  const bestTrial = best === null ? undefined : trials.get(best);

  const picture = React.useMemo<IPicture>(() => {
    const axis = (range: readonly [number, number], label: string, log: boolean): IAxis => ({ label, range, log });
    const found = new Map<number, ILine>();
    // The best last, so that they lie on top.
    for (const { number } of [...order].reverse()) {
      const line = closerLines.get(number);
      if (line) {
        found.set(number, { ...line, colour: colours.of(number) });
      }
    }
    return {
      x: axis((view ?? all).x, unit === 'step' ? trans.__('step') : trans.__('seconds since its first value'), logX),
      y: axis((view ?? all).y, metric, logY),
      data: [closerLines, colours, order, selected, best, theme],
      order: order.filter(({ number }) => found.has(number)).map(({ number }) => number),
      paint: (paper, x, y) => paintLines(paper, x, y, found, selected, best, theme.page, theme.text),
      point: (paper, x, y, trial) => pointOut(paper, x, y, found.get(trial), theme.page),
      nearest: (left, top, x, y) => nearest(found, selected, left, top, x, y),
      within: (box, x, y) => [...found.values()].filter(l => passes(l.x, l.y, x, y, box)).map(l => l.trial),
      hit: (trial, x, y, left) => hitOf(found.get(trial), trials.get(trial), x, y, left, factsOf)
    };

    function factsOf(line: ILine, at: number, trial: ITrial | undefined): IFact[] {
      const value = line.raw ? line.raw[at]! : line.y[at]!;
      const facts: IFact[] = [
        [metric, shown(value)],
        [unit === 'step' ? trans.__('step') : trans.__('seconds'), shown(line.x[at])]
      ];
      if (line.raw) {
        facts.splice(1, 0, [trans.__('smoothed'), shown(line.y[at])]);
      }
      return trial ? [...facts, ...trialFacts(trial, context)] : facts;
    }
    // eslint-disable-next-line react-hooks/exhaustive-deps -- trials change in place: `order` says when
  }, [closerLines, colours, order, selected, best, view, all, theme, metric, unit, logX, logY]);

  const count = paths?.size ?? 0;
  const summary =
    trans._n('Curves of %2 over %3: %1 trial.', 'Curves of %2 over %3: %1 trials.', count, metric, picture.x.label) +
    (bestTrial ? ' ' + trans.__('Best: %1 with %2.', bestTrial.label, shown(goalValue(bestTrial))) : '') +
    ' ' +
    trans.__(
      'Up and down go through the trials from the best, Enter opens one, Space selects it; the table lists them.'
    );
  return (
    <div className="wb-View wb-Curves">
      <div className="wb-Controls" role="toolbar" aria-label={trans.__('How curves are shown')}>
        <Choice
          label={trans.__('Metric')}
          value={metric}
          onChange={setMetric}
          options={(names.length ? names : [metric]).map(name => [name, name])}
        />
        <label className="wb-Control">
          {trans.__('Smoothing')}
          <input
            type="range"
            min={0}
            max={0.99}
            step={0.01}
            value={weight}
            aria-valuetext={weight === 0 ? trans.__('off') : String(weight)}
            onChange={event => setWeight(Number(event.target.value))}
          />
          <output>{weight.toFixed(2)}</output>
        </label>
        <Choice
          label={trans.__('Over')}
          value={unit}
          onChange={value => setUnit(value as Unit)}
          options={[
            ['step', trans.__('step')],
            ['time', trans.__('time')]
          ]}
        />
        <Choice
          label={trans.__('Colour')}
          value={by}
          onChange={setBy}
          options={[
            ['value', experiment.goal?.metric ?? trans.__('value')],
            ['state', trans.__('state')],
            ...known.map(({ name }) => [`p:${name}`, name] as [string, string])
          ]}
        />
        <Tick label={trans.__('log x')} value={logX} onChange={setLogX} />
        <Tick label={trans.__('log y')} value={logY} onChange={setLogY} />
        <Tick
          label={trans.__('outliers')}
          value={whole}
          onChange={setWhole}
          caption={trans.__('Show all values, even where a few squeeze all others')}
        />
        <span className="wb-Controls-gap" />
        <Modes trans={trans} mode={mode} onMode={setMode} zoomed={view !== null} onReset={() => setView(null)} />
      </div>
      <div className="wb-Under">
        <LegendBar legend={colours.legend} />
        <span className="wb-Count">
          {selected.size > 0
            ? trans.__('%1 of %2 selected', selected.size, trials.size)
            : trans._n('%1 curve', '%1 curves', count, count)}
          {selected.size > 0 && (
            <button type="button" className="wb-Link" onClick={() => selection.clear()}>
              {trans.__('clear')}
            </button>
          )}
        </span>
      </div>
      <Plot
        context={context}
        picture={picture}
        theme={theme}
        mode={mode}
        summary={summary}
        onView={setView}
        onWidth={setWidth}
      />
      {curves?.error && (
        <p className="wb-Note wb-Over" role="status">
          {curves.error}
        </p>
      )}
      {!curves?.error && paths !== null && count === 0 && (
        <p className="wb-Note wb-Over" role="status">
          {trans.__('No trial has reported %1 yet.', metric)}
        </p>
      )}
    </div>
  );
}

function useCurves({ experiment }: IContext, metric: string, unit: Unit, width: number, log: boolean): Curves | null {
  const [curves, setCurves] = React.useState<Curves | null>(null);
  const [, again] = React.useReducer((count: number) => count + 1, 0);
  // A slightly wider picture needs no new points.
  const columns = Math.ceil(width / 400) * 400;
  React.useEffect(() => {
    if (!metric || columns === 0) {
      return;
    }
    const made = new Curves(experiment, metric, unit, columns, log);
    let turn = 0;
    const draw = () => {
      cancelAnimationFrame(turn);
      turn = requestAnimationFrame(() => again());
    };
    made.changed.connect(draw);
    setCurves(made);
    return () => {
      cancelAnimationFrame(turn);
      made.dispose();
    };
  }, [experiment, metric, unit, columns, log]);
  return curves;
}

/** Fetch the points of the visible part when the movement has ended. */
function useDetail(curves: Curves | null, view: IView | null): void {
  const [low, high] = view?.x ?? [null, null];
  React.useEffect(() => {
    if (!curves) {
      return;
    }
    if (low === null || high === null) {
      void curves.look(null);
      return;
    }
    const rest = window.setTimeout(() => void curves.look([low, high]), 150);
    return () => window.clearTimeout(rest);
  }, [curves, low, high]);
}
