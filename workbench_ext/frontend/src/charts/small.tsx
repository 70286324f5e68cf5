/** A small chart of one metric. It fetches its curves only while it is on the screen. */

import * as React from 'react';

import { fullView, ILine, nearestTo, smoothLines } from '../chart/curvepaint';
import { ITheme } from '../chart/paint';
import { Plot } from '../chart/plot';
import { Pointer } from '../chart/pointer';
import { Unit } from '../curves/curves';
import { useCurves } from '../curves/hooks';
import { curvesPicture } from '../curves/picture';
import { IContext } from '../experiment/context';
import { useSeen, useSignal } from '../hooks';
import { shown } from '../numbers';
import { IColouring } from '../parameters/colouring';
import { ISystem, ITrial } from '../server/api';

/** What all charts of the view have in common. */
export interface IShared {
  readonly context: IContext;
  readonly pointer: Pointer;
  readonly unit: Unit;
  readonly weight: number;
  readonly logY: boolean;
  /** Whether outliers are shown. */
  readonly whole: boolean;
  readonly order: readonly ITrial[];
  readonly colours: IColouring;
  readonly selected: ReadonlySet<number>;
  /** The best trial. */
  readonly best: number | null;
  readonly theme: ITheme;
}

type Lines = ReadonlyMap<number, Omit<ILine, 'colour'>>;

/** Pixels beyond the visible part within which charts are drawn already. */
const AHEAD = 200;
/** The share of the width beside the curves, in which the dots at their ends have room. */
const MARGIN = 0.03;

/** `system`: a measure of processes instead of a metric. */
export function SmallChart(props: {
  metric: string;
  isGoal: boolean;
  shared: IShared;
  system?: ISystem;
}): React.JSX.Element {
  const { metric, isGoal, shared, system } = props;
  const { context, pointer, unit, weight, logY, whole, order, colours, selected, best, theme } = shared;
  const { trans } = context;
  const host = React.useRef<HTMLElement>(null);
  const seen = useSeen(host, '.wb-Charts-all', AHEAD);
  const [width, setWidth] = React.useState(0);
  const curves = useCurves(context, system?.name ?? metric, unit, seen ? width : 0, false, system !== undefined);
  const paths = curves?.paths ?? null;
  const lines = React.useMemo(() => smoothLines(paths, weight), [paths, weight]);
  const better = isGoal ? context.experiment.goal?.mode : undefined;
  const view = React.useMemo(() => fullView(lines, false, logY, whole, better, MARGIN), [lines, logY, whole, better]);
  const picture = React.useMemo(
    () =>
      curvesPicture({
        ...(system && { across: trans.__("seconds since the trial's start") }),
        ...{ context, metric, unit, logX: false, logY, lines, view, order, colours, selected, best, theme }
      }),
    // eslint-disable-next-line react-hooks/exhaustive-deps -- trials change in place: `order` says when
    [lines, colours, order, selected, best, view, theme, metric, unit, logY]
  );
  const count = paths?.size ?? 0;
  const summary = trans._n('Chart of %2: %1 trial.', 'Chart of %2: %1 trials.', count, metric);
  return (
    <figure className="wb-Chart" ref={host} aria-label={metric}>
      <figcaption>
        <span className="wb-Chart-name" title={metric}>
          {metric}
        </span>
        {isGoal && <span className="wb-Small-goal">{trans.__('goal')}</span>}
        <Pointed shared={shared} lines={lines} />
      </figcaption>
      <Plot
        context={context}
        picture={picture}
        theme={theme}
        mode="select"
        summary={summary}
        onView={noView}
        onWidth={setWidth}
        pointer={pointer}
        small
      />
      {(curves?.error ?? (paths !== null && count === 0)) && (
        <p className="wb-Note wb-Over" role="status">
          {curves?.error ?? trans.__('No values yet.')}
        </p>
      )}
    </figure>
  );
}

/** The value of the trial that any of the charts points at, or of the best one, at the place that is pointed at. */
function Pointed({ shared, lines }: { shared: IShared; lines: Lines }): React.JSX.Element | null {
  const { context, pointer, best, unit } = shared;
  const { experiment, selection, trans } = context;
  useSignal(pointer.changed);
  useSignal(selection.changed);
  const trial = selection.hovered ?? best;
  const line = trial === null ? undefined : lines.get(trial);
  if (trial === null || !line || line.x.length === 0) {
    return null;
  }
  const at = pointer.at === null ? line.x.length - 1 : nearestTo(line.x, pointer.at);
  const label = experiment.trials.get(trial)?.label ?? String(trial);
  return (
    <span className="wb-Chart-value">
      <strong>{shown((line.raw ?? line.y)[at])}</strong>{' '}
      {unit === 'step'
        ? trans.__('%1 at step %2', label, line.x[at]!)
        : trans.__('%1 after %2 s', label, shown(line.x[at]))}
    </span>
  );
}

/** Small charts are not zoomed. */
function noView(): void {}
