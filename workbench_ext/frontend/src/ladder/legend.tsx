/** What the marks and colours of the ladder mean. */

import * as React from 'react';

import { LegendBar } from '../chart/legend';
import { theme } from '../chart/paint';
import { IContext } from '../experiment/context';
import { viridis, visible } from '../chart/colours';
import { useSignal } from '../hooks';
import { ILadder } from './data';

const STOPS = 16;

export function LadderLegend(props: {
  context: IContext;
  ladder: ILadder;
  ends: readonly [number, number] | null;
}): React.JSX.Element {
  const { context, ladder, ends } = props;
  const { trans } = context;
  useSignal(context.themeChanged);
  const { dark } = theme();
  const colours = Array.from({ length: STOPS }, (_, k) => viridis(visible(k / (STOPS - 1), dark)));
  const has = (fate: string) =>
    ladder.brackets.some(({ rungs }) => rungs.some(({ entries }) => entries.some(entry => entry.fate === fate)));
  const marks: [string, string, boolean][] = [
    ['on', trans.__('went on'), true],
    ['stopped', trans.__('ended here'), has('stopped')],
    ['training', trans.__('training'), has('training')],
    ['waiting', trans.__('waiting'), has('waiting') || has('lost')],
    ['failed', trans.__('failed'), has('failed')],
    ['cut', trans.__('the cut'), ladder.scheduler === 'hyperband' || ladder.scheduler === 'asha'],
    ['free', trans.__('open place'), hasFree(ladder)]
  ];
  return (
    <div className="wb-Ladder-legend">
      <span className="wb-Ladder-hint">
        {trans.__('Each column is a level, each row a rank; a line is a trial that went on.')}
      </span>
      <ul className="wb-Ladder-marks" aria-label={trans.__('Marks')}>
        {marks
          .filter(([, , isThere]) => isThere)
          .map(([kind, label]) => (
            <li key={kind}>
              <span className={`wb-Mark wb-mod-${kind}`} aria-hidden="true" />
              {label}
            </li>
          ))}
      </ul>
      {ends && (
        <LegendBar
          legend={{
            kind: 'amount',
            label: trans.__('%1 at the level', ladder.goal.metric),
            low: ends[0],
            high: ends[1],
            log: false,
            colours
          }}
        />
      )}
    </div>
  );
}

function hasFree({ brackets }: ILadder): boolean {
  return brackets.some(({ rungs }) => rungs.some(({ places, entries }) => (places ?? 0) > entries.length));
}
