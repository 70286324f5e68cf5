/** All metrics of one trial, and what its processes used, each in its own small picture. */

import * as React from 'react';

import { ICurve } from '../server/api';
import { IContext } from '../experiment/context';
import { ExperimentModel } from '../experiment/experiment';
import { systemLabel } from '../charts/groups';
import { useSeen, useSignal } from '../hooks';
import { shown } from '../numbers';
import { lineOf } from './line';
import { Kind, Rounds } from './rounds';

const SIZE = { width: 300, height: 120, left: 48, right: 6, top: 8, bottom: 8 };
/** Pixels beyond the visible part within which pictures are drawn already. */
const AHEAD = 200;

/** The curves of a trial, asked for again when `turn` changes. */
export function useRounds(experiment: ExperimentModel, trial: number, turn: unknown): Rounds {
  const rounds = React.useMemo(() => new Rounds(experiment, trial, SIZE.width), [experiment, trial]);
  React.useEffect(() => () => rounds.dispose(), [rounds]);
  React.useEffect(() => rounds.ask(), [rounds, turn]);
  return rounds;
}

export function TrialCurves({ context, rounds }: { context: IContext; rounds: Rounds }): React.JSX.Element {
  const { trans } = context;
  useSignal(rounds.changed);
  const { listed, error } = rounds;
  const metrics = listed?.metrics ?? [];
  const said = error ?? (listed === null ? '…' : metrics.length === 0 ? trans.__('Nothing was reported yet.') : null);
  return (
    <>
      {metrics.length > 0 && (
        <div className="wb-Trial-curves">
          {metrics.map(({ name, goal }) => (
            <Chart key={name} kind="metric" name={name} label={name} goal={goal} context={context} rounds={rounds} />
          ))}
        </div>
      )}
      {said !== null && <p className="wb-Trial-none">{said}</p>}
    </>
  );
}

/** What the trial's processes used over time; nothing before its first seconds. */
export function TrialSystem(props: {
  context: IContext;
  rounds: Rounds;
  children: (curves: React.ReactNode) => React.ReactNode;
}): React.JSX.Element | null {
  const { context, rounds, children } = props;
  useSignal(rounds.changed);
  const measured = rounds.listed?.system ?? [];
  return measured.length === 0 ? null : (
    <>
      {children(
        <div className="wb-Trial-curves">
          {measured.map(one => (
            <Chart
              key={one.name}
              kind="system"
              name={one.name}
              label={systemLabel(one)}
              goal={false}
              context={context}
              rounds={rounds}
            />
          ))}
        </div>
      )}
    </>
  );
}

/** A small picture, whose curve is asked for while it is on the screen. */
function Chart(props: {
  kind: Kind;
  name: string;
  label: string;
  goal: boolean;
  context: IContext;
  rounds: Rounds;
}): React.JSX.Element {
  const { kind, name, label, goal, context, rounds } = props;
  const host = React.useRef<HTMLElement>(null);
  const isSeen = useSeen(host, '.wb-Page-view', AHEAD);
  React.useEffect(() => {
    if (!isSeen) {
      return;
    }
    rounds.show(kind, name);
    return () => rounds.hide(kind, name);
  }, [rounds, kind, name, isSeen]);
  const curve = rounds.curve(kind, name);
  return (
    <figure className="wb-Small" ref={host} aria-label={label}>
      {curve && curve.x.length > 0 ? (
        <Small name={label} goal={goal} curve={curve} context={context} timed={kind === 'system'} />
      ) : (
        <>
          <figcaption>
            <span className="wb-Small-name">{label}</span>
          </figcaption>
          <svg aria-hidden="true" />
        </>
      )}
    </figure>
  );
}

/** `timed`: x is seconds since the trial's start. */
const Small = React.memo(function Small(props: {
  name: string;
  goal: boolean;
  curve: ICurve;
  context: IContext;
  timed: boolean;
}): React.JSX.Element {
  const { name, goal, curve, context, timed } = props;
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
    <>
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
    </>
  );
});

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
