/** One small chart for each metric, by prefix: the same colours, one smoothing, and one place that is pointed at. */

import * as React from 'react';

import { Tick } from '../chart/controls';
import { LegendBar } from '../chart/legend';
import { Pointer } from '../chart/pointer';
import { useTheme } from '../chart/theme';
import { Unit } from '../curves/curves';
import { Look } from '../curves/look';
import { IContext } from '../experiment/context';
import { useKept, useMetrics, useSelected, useSignal, useSystem } from '../hooks';
import { useColouring, useParameters, useRanked } from '../parameters/memory';
import { SYSTEM, groups, systemLabel } from './groups';
import { Hovered } from './hovered';
import { IShared, SmallChart } from './small';

export function ChartsView({ context }: { context: IContext }): React.JSX.Element {
  const { experiment, trans, state, selection } = context;
  useSignal(experiment.changed);
  const names = useMetrics(experiment);
  const measured = useSystem(experiment);
  const [weight, setWeight] = useKept<number>(state, 'charts.smooth', 0);
  const [unit, setUnit] = useKept<Unit>(state, 'charts.x', 'step');
  const [logY, setLogY] = useKept<boolean>(state, 'charts.logY', false);
  const [whole, setWhole] = useKept<boolean>(state, 'charts.outliers', false);
  const [folded, setFolded] = useKept<string[]>(state, 'charts.folded', []);
  // The curves and these charts have the same colours.
  const [by, setBy] = useKept(state, 'curves.colour', 'value');
  const theme = useTheme(context);
  const selected = useSelected(selection);
  const pointer = React.useMemo(() => new Pointer(), []);
  // Samples have no steps: their charts have an axis of their own.
  const clock = React.useMemo(() => new Pointer(), []);

  const { trials, goal } = experiment;
  const known = useParameters(experiment);
  // Trials change in place: what they looked like is what counts.
  const looks = [...trials.values()].map(({ state, value }) => `${state}${value}`).join();
  const order = useRanked(experiment, looks);
  const colours = useColouring(by, experiment, known, order, theme.dark, trans);
  const best = experiment.row?.best?.number ?? null;
  const shared: IShared = { context, pointer, unit, weight, logY, whole, order, colours, selected, best, theme };
  const found = React.useMemo(() => groups(names), [names]);
  return (
    <div className="wb-View wb-Charts">
      <div className="wb-Controls" role="toolbar" aria-label={trans.__('How all charts are shown')}>
        <Look
          trans={trans}
          {...{ weight, setWeight, unit, setUnit, by, setBy }}
          goal={goal?.metric}
          parameters={known}
        />
        <Tick label={trans.__('log y')} value={logY} onChange={setLogY} />
        <Tick
          label={trans.__('outliers')}
          value={whole}
          onChange={setWhole}
          caption={trans.__('Show all values, even where a few squeeze all others')}
        />
        <span className="wb-Controls-gap" />
        <span className="wb-Count" role="status">
          {selected.size > 0
            ? trans.__('%1 of %2 selected', selected.size, trials.size)
            : trans._n('%1 metric', '%1 metrics', names.length, names.length)}
          {selected.size > 0 && (
            <button type="button" className="wb-Link" onClick={() => selection.clear()}>
              {trans.__('clear')}
            </button>
          )}
        </span>
      </div>
      <div className="wb-Under">
        <LegendBar legend={colours.legend} />
        <Hovered context={context} />
      </div>
      <div className="wb-Charts-all">
        {found.map(({ prefix, names: members }) => (
          <Group
            key={prefix}
            title={prefix || trans.__('other')}
            summary={trans._n('%1 metric', '%1 metrics', members.length, members.length)}
            bare={found.length === 1 && measured.length === 0}
            folded={folded.includes(prefix)}
            onFold={fold => setFolded(fold ? [...folded, prefix] : folded.filter(other => other !== prefix))}
          >
            {members.map(name => (
              <SmallChart key={name} metric={name} isGoal={name === goal?.metric} shared={shared} />
            ))}
          </Group>
        ))}
        {measured.length > 0 && (
          <Group
            title={trans.__('system')}
            summary={trans._n('%1 measure', '%1 measures', measured.length, measured.length)}
            folded={folded.includes(SYSTEM)}
            onFold={fold => setFolded(fold ? [...folded, SYSTEM] : folded.filter(other => other !== SYSTEM))}
          >
            {measured.map(one => (
              <SmallChart
                key={one.name}
                metric={systemLabel(one)}
                isGoal={false}
                system={one}
                shared={{ ...shared, pointer: clock, unit: 'time' }}
              />
            ))}
          </Group>
        )}
      </div>
    </div>
  );
}

/** Charts under a heading that folds them; `bare`: without one. */
function Group(props: {
  title: string;
  summary: string;
  bare?: boolean;
  folded: boolean;
  onFold: (fold: boolean) => void;
  children: React.ReactNode;
}): React.JSX.Element {
  const { title, summary, bare, folded, onFold, children } = props;
  const charts = <div className="wb-Charts-grid">{children}</div>;
  if (bare) {
    return charts;
  }
  return (
    <section aria-label={title}>
      <h4 className="wb-Charts-head">
        <button type="button" className="wb-Section-toggle" aria-expanded={!folded} onClick={() => onFold(!folded)}>
          <span className="wb-Section-caret" aria-hidden="true" />
          {title}
          <span className="wb-Section-summary">{summary}</span>
        </button>
      </h4>
      {!folded && charts}
    </section>
  );
}
