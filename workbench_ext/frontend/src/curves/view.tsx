/** All trials of a metric, live. */

import * as React from 'react';

import { fullView, smoothLines } from '../chart/curvepaint';
import { LegendBar } from '../chart/legend';
import { IPicture, IView, Mode, Plot } from '../chart/plot';
import { shown } from '../numbers';
import { useTheme } from '../chart/theme';
import { IContext } from '../experiment/context';
import { Unit } from './curves';
import { useKept, useMetrics, useSelected, useSignal } from '../hooks';
import { useColouring, useParameters, useRanked } from '../parameters/memory';
import { goalValue } from '../parameters/parameters';
import { Choice, Modes, Tick } from '../chart/controls';
import { useCurves, useDetail } from './hooks';
import { Look } from './look';
import { curvesPicture } from './picture';
import { Failure } from '../trial/failure';

export function CurvesView({ context }: { context: IContext }): React.JSX.Element {
  const { experiment, trans, state, selection } = context;
  useSignal(experiment.changed);
  const names = useMetrics(experiment);
  const goal = experiment.goal?.metric ?? names[0] ?? '';
  const [chosen, setMetric] = useKept(state, 'curves.metric', '');
  const metric = names.includes(chosen) ? chosen : goal;
  const better = metric === experiment.goal?.metric ? experiment.goal.mode : undefined;
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
  const all = React.useMemo(() => fullView(lines, logX, logY, whole, better), [lines, logX, logY, whole, better]);
  const best = experiment.row?.best?.number ?? null;
  const bestTrial = best === null ? undefined : trials.get(best);

  const picture = React.useMemo<IPicture>(
    () =>
      curvesPicture({
        ...{ context, metric, unit, logX, logY, lines: closerLines, view: view ?? all },
        ...{ order, colours, selected, best, theme }
      }),
    // eslint-disable-next-line react-hooks/exhaustive-deps -- trials change in place: `order` says when
    [closerLines, colours, order, selected, best, view, all, theme, metric, unit, logX, logY]
  );

  const count = paths?.size ?? 0;
  const summary =
    trans._n('Curves of %2 over %3: %1 trial.', 'Curves of %2 over %3: %1 trials.', count, metric, picture.x.label) +
    (bestTrial ? ' ' + trans.__('Best: %1 with %2.', bestTrial.label, shown(goalValue(bestTrial))) : '') +
    ' ' +
    trans.__(
      'Up and down go through the trials from the best, Enter opens one, Space selects it; the table lists them.'
    );
  if (experiment.row?.state === 'failed' && paths !== null && count === 0) {
    return <Failure context={context} />; // axes would be empty for ever
  }
  return (
    <div className="wb-View wb-Curves">
      <div className="wb-Controls" role="toolbar" aria-label={trans.__('How curves are shown')}>
        <Choice
          label={trans.__('Metric')}
          value={metric}
          onChange={setMetric}
          options={(names.length ? names : [metric]).map(name => [name, name])}
        />
        <Look
          trans={trans}
          {...{ weight, setWeight, unit, setUnit, by, setBy }}
          goal={experiment.goal?.metric}
          parameters={known}
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
