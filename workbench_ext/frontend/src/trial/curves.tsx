/** All metrics of one trial, and what its processes used, each in its own small picture. */

import * as React from 'react';

import { ICurve, ICurves, IMetrics, experimentPath } from '../server/api';
import { IContext } from '../experiment/context';
import { systemLabel } from '../charts/groups';
import { useAsked, useSystem } from '../hooks';
import { shown } from '../numbers';
import { lineOf } from './line';

const SIZE = { width: 300, height: 120, left: 48, right: 6, top: 8, bottom: 8 };

export function TrialCurves(props: { context: IContext; trial: number; turn: unknown }): React.JSX.Element {
  const { context, trial, turn } = props;
  const { api, experiment, trans } = context;
  const asked = useAsked(async () => {
    const { metrics } = await api.get<IMetrics>(experimentPath(experiment.ref, 'metrics'));
    return Promise.all(
      metrics.map(async ({ name, goal }) => {
        const { curves } = await api.get<ICurves>(experimentPath(experiment.ref, 'curves'), {
          metric: name,
          trials: [trial],
          width: SIZE.width
        });
        return { name, goal, curve: curves.find(one => one.trial === trial) ?? null };
      })
    );
  }, [experiment, trial, turn]);
  const found = asked.value?.filter(({ curve }) => curve !== null && curve.x.length > 0) ?? [];
  if (found.length === 0) {
    return (
      <p className="wb-Trial-none">
        {asked.error?.message ?? (asked.value ? trans.__('Nothing was reported yet.') : '…')}
      </p>
    );
  }
  return (
    <div className="wb-Trial-curves">
      {found.map(({ name, goal, curve }) => (
        <Small key={name} name={name} goal={goal} curve={curve!} context={context} />
      ))}
    </div>
  );
}

/** What the trial's processes used over time; nothing before its first seconds. */
export function TrialSystem(props: {
  context: IContext;
  trial: number;
  turn: unknown;
  children: (curves: React.ReactNode) => React.ReactNode;
}): React.JSX.Element | null {
  const { context, trial, turn, children } = props;
  const { api, experiment } = context;
  const measured = useSystem(experiment);
  const asked = useAsked(
    () =>
      Promise.all(
        measured.map(async one => {
          const { curves } = await api.get<ICurves>(experimentPath(experiment.ref, 'curves'), {
            system: one.name,
            trials: [trial],
            width: SIZE.width
          });
          return { one, curve: curves.find(curve => curve.trial === trial) ?? null };
        })
      ),
    [experiment, trial, turn, measured]
  );
  const found = asked.value?.filter(({ curve }) => curve !== null && curve.x.length > 0) ?? [];
  return found.length === 0 ? null : (
    <>
      {children(
        <div className="wb-Trial-curves">
          {found.map(({ one, curve }) => (
            <Small key={one.name} name={systemLabel(one)} goal={false} curve={curve!} context={context} timed />
          ))}
        </div>
      )}
    </>
  );
}

/** `timed`: x is seconds since the trial's start. */
function Small(props: {
  name: string;
  goal: boolean;
  curve: ICurve;
  context: IContext;
  timed?: boolean;
}): React.JSX.Element {
  const { name, goal, curve, context, timed = false } = props;
  const { trans } = context;
  const [pointed, setPointed] = React.useState<number | null>(null);
  const values = curve.y.map(value => (typeof value === 'number' ? value : NaN));
  const finite = values.filter(Number.isFinite);
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  const [first, last] = [curve.x[0]!, curve.x[curve.x.length - 1]!];
  const { width, height, left, right, top, bottom } = SIZE;
  const x = (at: number) => left + (last > first ? (at - first) / (last - first) : 0.5) * (width - left - right);
  const y = (value: number) => top + (high > low ? (high - value) / (high - low) : 0.5) * (height - top - bottom);
  const line = lineOf(curve.x, values, x, y);
  const at = pointed ?? curve.x.length - 1;
  const point = (event: React.PointerEvent<SVGElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    const wanted = first + ((event.clientX - box.left) / box.width) * (last - first);
    let nearest = 0;
    curve.x.forEach((one, k) => {
      if (Math.abs(one - wanted) < Math.abs(curve.x[nearest]! - wanted)) {
        nearest = k;
      }
    });
    setPointed(nearest);
  };
  return (
    <figure className="wb-Small">
      <figcaption>
        <span className="wb-Small-name">{name}</span>
        {goal && <span className="wb-Small-goal">{trans.__('goal')}</span>}
        <span className="wb-Small-value">
          {shown(curve.y[at] ?? null)}
          <span className="wb-Small-step">
            {' '}
            {timed ? trans.__('after %1 s', shown(curve.x[at])) : trans.__('step %1', curve.x[at]!)}
          </span>
        </span>
      </figcaption>
      <svg
        viewBox={`0 0 ${width} ${height}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={
          finite.length === 0
            ? trans.__('%1 has no finite value', name)
            : timed
              ? trans.__('%1 from second %2 to %3, between %4 and %5', name, ...[first, last, low, high].map(shown))
              : trans.__('%1 from step %2 to %3, between %4 and %5', name, first, last, shown(low), shown(high))
        }
        onPointerMove={point}
        onPointerLeave={() => setPointed(null)}
      >
        <path className="wb-Small-line" d={line} vectorEffect="non-scaling-stroke" />
        {pointed !== null && (
          <line
            className="wb-Small-at"
            x1={x(curve.x[at]!)}
            x2={x(curve.x[at]!)}
            y1={0}
            y2={height}
            vectorEffect="non-scaling-stroke"
          />
        )}
      </svg>
      {finite.length > 0 && <Limits low={low} high={high} />}
    </figure>
  );
}

/** The values at the upper and the lower edge of a small picture. */
export function Limits({ low, high }: { low: number; high: number }): React.JSX.Element {
  return (
    <>
      <span className="wb-Small-high" aria-hidden="true">
        {shown(high)}
      </span>
      <span className="wb-Small-low" aria-hidden="true">
        {shown(low)}
      </span>
    </>
  );
}
