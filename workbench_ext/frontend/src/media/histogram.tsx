/** A histogram as it was logged, drawn as bars. */

import * as React from 'react';

import { shown } from '../numbers';
import { ITrialFile } from '../server/api';
import { IHistogram, bars } from './media';
import { ISource, useJson } from './source';

const SIZE = { width: 320, height: 120 };

export function Histogram(props: { source: ISource; file: ITrialFile; words: string }): React.JSX.Element {
  const { source, file, words } = props;
  const { trans } = source.context;
  const asked = useJson(source, file);
  const found = isHistogram(asked.value) ? asked.value : null;
  if (!found) {
    return (
      <p className="wb-Trial-none">
        {asked.error?.message ?? (asked.value ? trans.__('This file is not a histogram.') : '…')}
      </p>
    );
  }
  const { edges, left_out: left } = found;
  const count = found.counts.reduce((sum, one) => sum + one, 0);
  const [low, high] = [edges[0] ?? null, edges[edges.length - 1] ?? null];
  const about = trans._n('%1 value from %2 to %3', '%1 values from %2 to %3', count, shown(low), shown(high));
  return (
    <div className="wb-Histogram">
      {edges.length > 1 && (
        <>
          <svg
            viewBox={`0 0 ${SIZE.width} ${SIZE.height}`}
            preserveAspectRatio="none"
            role="img"
            aria-label={`${words}: ${about}`}
          >
            {bars(found, SIZE.width, SIZE.height).map(bar => (
              <g key={bar.low}>
                <title>{trans.__('%1 to %2: %3', shown(bar.low), shown(bar.high), shown(bar.count))}</title>
                {/* The whole column can be pointed at, also where the bar is short. */}
                <rect className="wb-Histogram-column" x={bar.x} width={bar.width} y={0} height={SIZE.height} />
                <rect className="wb-Histogram-bar" x={bar.x} width={bar.width} y={bar.y} height={bar.height} />
              </g>
            ))}
          </svg>
          <div className="wb-Histogram-ends" aria-hidden="true">
            <span>{shown(low)}</span>
            <span>{trans._n('%1 value', '%1 values', count)}</span>
            <span>{shown(high)}</span>
          </div>
        </>
      )}
      {left > 0 && (
        <p className="wb-Trial-none">
          {trans._n('%1 value is nan or infinite', '%1 values are nan or infinite', left)}
        </p>
      )}
    </div>
  );
}

function isHistogram(value: unknown): value is IHistogram {
  const { edges, counts, left_out: left } = (value ?? {}) as Partial<Record<keyof IHistogram, unknown>>;
  const numbers = (list: unknown): list is number[] =>
    Array.isArray(list) && list.every(one => typeof one === 'number');
  return (
    numbers(edges) &&
    numbers(counts) &&
    edges.length === (counts.length ? counts.length + 1 : 0) &&
    typeof left === 'number'
  );
}
