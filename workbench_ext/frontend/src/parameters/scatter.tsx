/** Trials as points: any two of their values against each other, the goal as colour. */

import * as React from 'react';

import { dotted } from '../chart/dots';
import { LegendBar } from '../chart/legend';
import { IPicture, IView, Mode, Plot } from '../chart/plot';
import { useTheme } from '../chart/theme';
import { IFact, trialFacts } from '../chart/tip';
import { IContext } from '../experiment/context';
import { useKept, useSelected, useSignal } from '../hooks';
import { useColouring, useMeasured, useMeasures, useParameters, useRanked } from './memory';
import { axisOf, dotsAt, IValue, placed, values } from './values';
import { Choice, Modes, Tick } from '../chart/controls';

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
  const dots = React.useMemo(
    () => placed(dotsAt(order, xValue, yValue), logX, logY),
    [order, xValue, yValue, logX, logY]
  );

  const picture = React.useMemo<IPicture>(() => {
    const { of: found, ...drawn } = dotted({
      dots,
      colours,
      selected,
      theme,
      best: experiment.row?.best?.number ?? null
    });
    return {
      x: axisOf(
        xValue,
        dots.map(({ x }) => x),
        logX,
        view?.x
      ),
      y: axisOf(
        yValue,
        dots.map(({ y }) => y),
        logY,
        view?.y
      ),
      data: [dots, colours, selected, theme],
      ...drawn,
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
      }
    };
    // eslint-disable-next-line react-hooks/exhaustive-deps -- trials change in place: `dots` says when
  }, [dots, colours, selected, theme, view, xValue, yValue, logX, logY]);

  const options = all.map(({ id, label, group }) => ({ value: id, label, group }));
  const canLog = ({ parameter }: IValue) => parameter === null || (parameter.kind === 'number' && parameter.low > 0);
  const summary =
    trans._n('%1 trial: %2 against %3.', '%1 trials: %2 against %3.', dots.length, yValue.label, xValue.label) +
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
            : trans.__('%1 of %2 trials have both values', dots.length, trials.size)}
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
