/** The text about a trial beside the pointer, also for screen readers. Law: text only. */

import * as React from 'react';

import { ITrial } from '../server/api';
import { IChartContext } from '../experiment/context';
import { said } from '../ladder/words';
import { goalValue } from '../parameters/parameters';
import { sinceWord } from '../words';
import { IFrame } from './paint';
import { shown } from '../numbers';

/** A trial at a place of the picture, in pixels. */
export interface IHit {
  readonly trial: number;
  readonly left: number;
  readonly top: number;
  /** The text besides its name. */
  readonly facts: readonly IFact[];
}

export type IFact = readonly [name: string, value: string];

/** Configuration entries that fit beside the pointer. */
const MOST = 10;

/** `quiet`: only for screen readers. */
export function Tip(props: {
  context: IChartContext;
  hit: IHit | null;
  frame: IFrame;
  quiet?: boolean;
}): React.JSX.Element {
  const { hit, frame, context, quiet } = props;
  const label = hit && (context.experiment.trials.get(hit.trial)?.label ?? String(hit.trial));
  return (
    <>
      {hit && !quiet && (
        <div className="wb-Tip" style={beside(hit, frame)} aria-hidden="true">
          <strong>{label}</strong>
          <dl>
            {hit.facts.map(([name, value]) => (
              <React.Fragment key={name}>
                <dt>{name}</dt>
                <dd>{value}</dd>
              </React.Fragment>
            ))}
          </dl>
        </div>
      )}
      <div className="wb-visually-hidden" role="status">
        {hit && [label, ...hit.facts.map(([name, value]) => `${name} ${value}`)].join(', ')}
      </div>
    </>
  );
}

/** A position that covers neither the pointer nor the picture's edge. */
function beside(hit: IHit, frame: IFrame): React.CSSProperties {
  const side =
    hit.left > frame.width * 0.6
      ? { right: `calc(100% - ${frame.left + hit.left - 14}px)` }
      : { left: frame.left + hit.left + 14 };
  const height =
    hit.top < frame.height / 2
      ? { top: frame.top + hit.top + 10 }
      : { bottom: `calc(100% - ${frame.top + hit.top - 10}px)` };
  return { ...side, ...height };
}

/** A trial's state, last value and configuration. */
export function trialFacts(trial: ITrial, { trans, experiment }: IChartContext): IFact[] {
  const entries = Object.entries(trial.configuration ?? {}).slice(0, MOST);
  return [
    [trans.__('state'), sinceWord(trial.state, trial.since, trans)],
    [trans.__('last %1', experiment.goal?.metric ?? ''), shown(goalValue(trial))],
    ...entries.map(([name, value]): IFact => [name, said(value)])
  ];
}
