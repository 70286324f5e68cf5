/** The curves of the compared trials in one picture, and whose colour is whose. */

import * as React from 'react';

import { Choice, Modes, Smoothing, Tick } from '../chart/controls';
import { categorical } from '../chart/colours';
import { fullView, smoothLines } from '../chart/curvepaint';
import { LegendBar } from '../chart/legend';
import { IView, Mode, Plot } from '../chart/plot';
import { useTheme } from '../chart/theme';
import { Curves, Unit } from '../curves/curves';
import { curvesPicture } from '../curves/picture';
import { IPath } from '../curves/thin';
import { IChartContext, IPageContext } from '../experiment/context';
import { useAsked } from '../hooks';
import { IColouring } from '../parameters/colouring';
import { useColouring, useParameters, useRanked } from '../parameters/memory';
import { ranked } from '../parameters/parameters';
import { IMetrics, experimentPath } from '../server/api';
import { IMember } from './lineup';

/** The colours of the compared trials, by their place. */
export interface IColours extends IColouring {
  readonly choice: React.JSX.Element | null;
}

/** Colours as the Curves tab has them; trials of several experiments have one each. */
export function useColours(context: IPageContext, members: readonly IMember[], looks: unknown): IColours {
  const { trans } = context;
  const { dark } = useTheme(context);
  const [chosen, setChosen] = React.useState('value');
  const first = members[0]!.experiment;
  const known = useParameters(first);
  const order = useRanked(first, looks);
  const elsewhere = useColouring(chosen, first, known, order, dark, trans);
  const isOne = members.every(({ experiment }) => experiment === first);
  return React.useMemo(() => {
    const choice = isOne ? (
      <Choice
        label={trans.__('Colour')}
        value={chosen}
        onChange={setChosen}
        options={[
          ['value', first.goal?.metric ?? trans.__('value')],
          ['trial', trans.__('trial')],
          ['state', trans.__('state')],
          ...known.map(({ name }) => [`p:${name}`, name] as [string, string])
        ]}
      />
    ) : null;
    if (isOne && chosen !== 'trial') {
      return { of: place => elsewhere.of(members[place]!.number), legend: elsewhere.legend, choice };
    }
    const names = members.map(({ ref }, place) => [ref, categorical(place, dark)] as const);
    return {
      of: place => categorical(place, dark),
      legend: { kind: 'names', label: trans.__('trial'), names },
      choice
    };
  }, [isOne, chosen, members, known, elsewhere, dark, first, trans]);
}

export function Overlay(props: {
  context: IPageContext;
  /** The trials by their place among the compared ones. */
  chart: IChartContext;
  members: readonly IMember[];
  colours: IColours;
  /** The place of the best. */
  best: number | null;
}): React.JSX.Element {
  const { context, chart, members, colours, best } = props;
  const { trans } = context;
  const goal = members[0]!.experiment.goal;
  const theme = useTheme(context);
  const names = useNames(members);
  const [chosen, setMetric] = React.useState('');
  const metric = names.includes(chosen) ? chosen : (goal?.metric ?? names[0] ?? '');
  const [unit, setUnit] = React.useState<Unit>('step');
  const [weight, setWeight] = React.useState(0);
  const [logY, setLogY] = React.useState(false);
  const [whole, setWhole] = React.useState(false);
  const [mode, setMode] = React.useState<Mode>('zoom');
  const [view, setView] = React.useState<IView | null>(null);
  const [width, setWidth] = React.useState(0);
  const { paths, error } = useCurvesOf(members, metric, unit, width);
  React.useEffect(() => setView(null), [metric, unit, logY]);
  const lines = React.useMemo(() => smoothLines(paths, weight), [paths, weight]);
  const better = metric === goal?.metric ? goal.mode : undefined;
  const all = React.useMemo(() => fullView(lines, false, logY, whole, better), [lines, logY, whole, better]);
  const order = ranked(chart.experiment.trials, goal?.mode ?? 'max');
  const picture = curvesPicture({
    ...{ context: chart, metric, unit, logX: false, logY, lines, view: view ?? all, order, colours, best, theme },
    selected: NONE
  });
  const count = paths?.size ?? 0;
  return (
    <section className="wb-Part wb-Many-curves" aria-label={trans.__('Curves')}>
      <div className="wb-Controls" role="toolbar" aria-label={trans.__('How curves are shown')}>
        <Choice
          label={trans.__('Metric')}
          value={metric}
          onChange={setMetric}
          options={(names.length ? names : [metric]).map(name => [name, name])}
        />
        <Smoothing trans={trans} weight={weight} onWeight={setWeight} />
        <Choice
          label={trans.__('Over')}
          value={unit}
          onChange={value => setUnit(value as Unit)}
          options={[
            ['step', trans.__('step')],
            ['time', trans.__('time')]
          ]}
        />
        {colours.choice}
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
      </div>
      <div className="wb-Many-plot">
        <Plot
          context={chart}
          picture={picture}
          theme={theme}
          mode={mode}
          summary={trans._n('Curves of %2 of %1 trial.', 'Curves of %2 of %1 trials.', count, metric)}
          onView={setView}
          onWidth={setWidth}
        />
        {(error ?? (paths !== null && count === 0)) && (
          <p className="wb-Note wb-Over" role="status">
            {error ?? trans.__('None of these trials has reported %1.', metric)}
          </p>
        )}
      </div>
    </section>
  );
}

const NONE: ReadonlySet<number> = new Set();

/** The metrics of all compared experiments, the goal first. */
function useNames(members: readonly IMember[]): readonly string[] {
  const experiments = [...new Set(members.map(({ experiment }) => experiment))];
  const asked = useAsked(
    () => Promise.all(experiments.map(({ api, ref }) => api.get<IMetrics>(experimentPath(ref, 'metrics')))),
    [members, experiments.map(({ row }) => row?.state).join()]
  );
  return React.useMemo(() => {
    const all = asked.value?.flatMap(({ metrics }) => metrics) ?? [];
    return [...new Set(all.sort((a, b) => Number(b.goal) - Number(a.goal)).map(({ name }) => name))];
  }, [asked.value]);
}

/** The curves of a metric by the trials' places, followed while they are shown. */
function useCurvesOf(
  members: readonly IMember[],
  metric: string,
  unit: Unit,
  width: number
): { readonly paths: ReadonlyMap<number, IPath> | null; readonly error: string | null } {
  const [found, setFound] = React.useState<IFound>(NOTHING);
  // A slightly wider picture needs no new points.
  const columns = Math.ceil(width / 400) * 400;
  React.useEffect(() => {
    if (!metric || columns === 0) {
      return;
    }
    const experiments = [...new Set(members.map(({ experiment }) => experiment))];
    const curves = experiments.map(one => {
      const numbers = members.filter(({ experiment }) => experiment === one).map(({ number }) => number);
      return new Curves(one, metric, unit, columns, false, [...new Set(numbers)]);
    });
    let turn = 0;
    const gather = () => {
      const paths = new Map<number, IPath>();
      members.forEach(({ experiment, number }, place) => {
        const path = curves[experiments.indexOf(experiment)]!.paths?.get(number);
        if (path) {
          paths.set(place, { ...path, trial: place });
        }
      });
      if (!curves.every(one => one.paths !== null || one.error !== null)) {
        return;
      }
      // One of several experiments may lack the metric: the others are shown.
      const error = paths.size === 0 ? (curves.find(one => one.error !== null)?.error ?? null) : null;
      setFound({ members, metric, unit, paths, error });
    };
    const later = () => {
      cancelAnimationFrame(turn);
      turn = requestAnimationFrame(gather);
    };
    curves.forEach(one => one.changed.connect(later));
    return () => {
      cancelAnimationFrame(turn);
      curves.forEach(one => one.dispose());
    };
  }, [members, metric, unit, columns]);
  // In a wider picture the former curves are shown until those with more points are there.
  return found.members === members && found.metric === metric && found.unit === unit ? found : NOTHING;
}

/** The curves, and what they are of. */
interface IFound {
  readonly members: readonly IMember[] | null;
  readonly metric: string;
  readonly unit: Unit;
  readonly paths: ReadonlyMap<number, IPath> | null;
  readonly error: string | null;
}

const NOTHING: IFound = { members: null, metric: '', unit: 'step', paths: null, error: null };
