/** The results of both sides: overlaid curves, and the first step at which they differ. */

import * as React from 'react';

import { IComparison, ICurves, IExperimentAnswer, Value, experimentPath } from '../server/api';
import { IPageContext } from '../experiment/context';
import { useAsked } from '../hooks';
import { configured } from '../ladder/words';
import { numeric } from '../curves/thin';
import { aligned, shown } from '../numbers';
import { Limits } from '../trial/curves';
import { lineOf } from '../trial/line';

const SIZE = { width: 640, height: 200, pad: 10 };
/** Pairs whose curves are drawn; more would hide each other. */
const MOST_DRAWN = 40;
/** Pairs in the table before the user asks for the rest. */
const MOST_ROWS = 12;

interface ILine {
  readonly side: 'a' | 'b';
  readonly trial: number;
  readonly x: readonly number[];
  readonly y: readonly number[];
}

export function CompareResults(props: { context: IPageContext; found: IComparison }): React.JSX.Element {
  const { context, found } = props;
  const { trans } = context;
  const { metrics, pairs, goal, selection, within_noise: noise } = found.results;
  const [metric, setMetric] = React.useState<string>(goal?.metric ?? metrics[0]?.name ?? '');
  const [all, setAll] = React.useState(false);
  const drawn = pairs.slice(0, MOST_DRAWN);
  const chosen = metrics.find(({ name }) => name === metric);
  const parted = drawn.map(one => one.parts_at).filter(step => step !== null);
  const partsAt =
    found.a.trial !== null || metric !== goal?.metric
      ? (chosen?.parts_at ?? null)
      : parted.length > 0
        ? Math.min(...parted)
        : null;
  return (
    <section className="wb-Part" aria-label={trans.__('Results')}>
      <h4>{trans.__('Results')}</h4>
      {selection && <p className="wb-Compare-noise">{selection}</p>}
      {noise && (
        <p className="wb-Compare-noise">
          {noise.verdict === null
            ? trans.__('The noise is not known: %1', noise.why)
            : noise.verdict
              ? trans.__('Within the noise: %1', noise.why)
              : trans.__('Beyond the noise: %1', noise.why)}
        </p>
      )}
      {metrics.length > 0 && (
        <table className="wb-Compare-table wb-mod-numbers">
          <Head context={context} found={found} first={trans.__('Metric')} />
          <tbody>
            {metrics.map(({ name, a, b, parts_at: step }) => {
              const format = aligned([numeric(a), numeric(b)]);
              const text = (value: Value | null) => (typeof value === 'number' ? format.of(value) : shown(value));
              return (
                <tr key={name} aria-current={name === metric}>
                  <th scope="row">
                    <button type="button" className="wb-Link" onClick={() => setMetric(name)}>
                      {name}
                    </button>
                  </th>
                  <td className="wb-Side-a">{text(a)}</td>
                  <td className="wb-Side-b">{text(b)}</td>
                  <td>{step ?? (same(a, b) ? trans.__('never') : '–')}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
      {metric && <Overlay context={context} found={found} metric={metric} pairs={drawn} partsAt={partsAt} />}
      {pairs.length > 0 && (
        <>
          <h5>
            {trans._n('%1 pair of equal configuration', '%1 pairs of equal configuration', pairs.length, pairs.length)}
          </h5>
          <table className="wb-Compare-table wb-mod-numbers">
            <Head context={context} found={found} first={trans.__('Configuration')} />
            <tbody>
              {pairs.slice(0, all ? pairs.length : MOST_ROWS).map(pair => (
                <tr key={`${pair.a}-${pair.b}`}>
                  <th scope="row">{configured(pair.configuration)}</th>
                  <td className="wb-Side-a">
                    <Trial context={context} side={found.a} trial={pair.a} value={pair.value_a} />
                  </td>
                  <td className="wb-Side-b">
                    <Trial context={context} side={found.b} trial={pair.b} value={pair.value_b} />
                  </td>
                  <td>{pair.parts_at ?? (pair.value_a === null || pair.value_b === null ? '–' : trans.__('never'))}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {!all && pairs.length > MOST_ROWS && (
            <button type="button" className="wb-Button" onClick={() => setAll(true)}>
              {trans.__('All %1', pairs.length)}
            </button>
          )}
        </>
      )}
    </section>
  );
}

function Head(props: { context: IPageContext; found: IComparison; first: string }): React.JSX.Element {
  const { context, found, first } = props;
  return (
    <thead>
      <tr>
        <th scope="col">{first}</th>
        <th scope="col">{found.a.ref}</th>
        <th scope="col">{found.b.ref}</th>
        <th scope="col">{context.trans.__('Differs from step')}</th>
      </tr>
    </thead>
  );
}

function Trial(props: {
  context: IPageContext;
  side: IComparison['a'];
  trial: number;
  value: Value | null;
}): React.JSX.Element {
  const { context, side, trial, value } = props;
  const label = `t${String(trial).padStart(4, '0')}`;
  return (
    <>
      {shown(value)}{' '}
      <button
        type="button"
        className="wb-Link"
        onClick={() => void context.commands.execute('workbench:open-trial', { experiment: side.experiment, trial })}
      >
        {label}
      </button>
    </>
  );
}

/** Both sides' curves of a metric in one picture. The first is drawn dashed, so that no colour is needed. */
function Overlay(props: {
  context: IPageContext;
  found: IComparison;
  metric: string;
  pairs: IComparison['results']['pairs'];
  partsAt: number | null;
}): React.JSX.Element {
  const { context, found, metric, pairs, partsAt } = props;
  const { api, trans } = context;
  const asked = useAsked(async () => {
    const sides = (['a', 'b'] as const).map(async side => {
      const { experiment, trial } = found[side];
      const trials = trial !== null ? [trial] : pairs.map(pair => pair[side]);
      if (trials.length === 0) {
        // No configuration is on both sides: compare the best of each.
        const { experiment: row } = await api.get<IExperimentAnswer>(experimentPath(experiment));
        const best = row.best && (row.best.number ?? Number(row.best.trial.slice(1)));
        if (best === null) {
          return [];
        }
        trials.push(best);
      }
      const { curves } = await api.get<ICurves>(experimentPath(experiment, 'curves'), {
        metric,
        trials,
        width: SIZE.width
      });
      return curves.map(({ trial, x, y }): ILine => ({
        side,
        trial,
        x,
        y: y.map(value => (typeof value === 'number' ? value : NaN))
      }));
    });
    return (await Promise.all(sides)).flat();
  }, [found, metric, pairs.length]);
  const lines = asked.value ?? [];
  const xs = lines.flatMap(({ x }) => [x[0] ?? NaN, x[x.length - 1] ?? NaN]).filter(Number.isFinite);
  const ys = lines.flatMap(({ y }) => y.filter(Number.isFinite));
  if (ys.length === 0) {
    return <p className="wb-Trial-none">{asked.error?.message ?? (asked.asking ? '…' : '')}</p>;
  }
  const [first, last, low, high] = [Math.min(...xs), Math.max(...xs), least(ys), -least(ys.map(y => -y))];
  const { width, height, pad } = SIZE;
  const x = (at: number) => pad + (last > first ? (at - first) / (last - first) : 0.5) * (width - 2 * pad);
  const y = (value: number) => pad + (high > low ? (high - value) / (high - low) : 0.5) * (height - 2 * pad);
  return (
    <figure className="wb-Overlay">
      <figcaption>
        <span>{metric}</span>
        <span className="wb-Side-a">
          <span className="wb-Overlay-mark wb-mod-a" aria-hidden="true" /> {found.a.ref}
        </span>
        <span className="wb-Side-b">
          <span className="wb-Overlay-mark wb-mod-b" aria-hidden="true" /> {found.b.ref}
        </span>
        {partsAt !== null && <span>{trans.__('they differ from step %1', partsAt)}</span>}
        {found.a.trial === null && pairs.length === 0 && <span>{trans.__('the best of each')}</span>}
        {found.results.pairs.length > pairs.length && <span>{trans.__('the first %1 pairs', pairs.length)}</span>}
      </figcaption>
      <div className="wb-Overlay-plot">
        <svg
          viewBox={`0 0 ${width} ${height}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={trans.__('%1 of both sides, between %2 and %3', metric, shown(low), shown(high))}
        >
          {lines.map(line => (
            <path
              key={`${line.side}-${line.trial}`}
              className={`wb-Overlay-line wb-mod-${line.side}`}
              d={lineOf(line.x, line.y, x, y)}
              vectorEffect="non-scaling-stroke"
            />
          ))}
          {partsAt !== null && partsAt >= first && partsAt <= last && (
            <line
              className="wb-Overlay-parts"
              x1={x(partsAt)}
              x2={x(partsAt)}
              y1={0}
              y2={height}
              vectorEffect="non-scaling-stroke"
            />
          )}
        </svg>
        <Limits low={low} high={high} />
        <span className="wb-Overlay-steps" aria-hidden="true">
          {trans.__('steps %1 to %2', first, last)}
        </span>
      </div>
    </figure>
  );
}

function least(values: readonly number[]): number {
  return values.reduce((one, other) => Math.min(one, other), Infinity);
}

function same(a: Value | null, b: Value | null): boolean {
  return a !== null && a === b;
}
