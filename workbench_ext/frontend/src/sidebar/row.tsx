/** One experiment in the sidebar. All data is shown as plain text. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { ENDED, IExperiment } from '../server/api';
import { Outcome } from '../experiment/outcome';
import { Troubles } from '../experiment/trouble';
import { Label, StateMark, age, counted, lasting, settingUp, spreadWords } from '../words';
import { shown } from '../numbers';
import { Sparkline } from './sparkline';

export interface IRow {
  readonly experiment: IExperiment;
  readonly trans: TranslationBundle;
}

/** Rendered again only when its experiment changed, or each minute for its age. */
export const Row = React.memo(function Row({
  experiment,
  trans
}: IRow & { readonly minute: number }): React.JSX.Element {
  const { label, state, created, goal, best, progress, tags, note, deleting } = experiment;
  const running = progress !== null && (state === 'running' || state === 'paused');
  const without = ENDED.has(state) ? trans.__('no value') : trans.__('no value yet');
  return (
    <>
      <div className="wb-Experiment-line">
        <Label label={label} className="wb-Experiment-name" />
        {deleting ? (
          <span className="wb-State wb-mod-deleting">{trans.__('being deleted')}</span>
        ) : (
          <StateMark state={state} trans={trans} />
        )}
      </div>
      <div className="wb-Experiment-line">
        <span className="wb-Experiment-best" title={spreadWords(best, trans) ?? undefined}>
          {best === null || goal === null ? (
            without
          ) : (
            <>
              {goal.metric} <strong>{shown(best.value)}</strong> ({best.trial})
            </>
          )}
        </span>
        {experiment.sparkline && <Sparkline values={experiment.sparkline} label={trans.__('Best value so far')} />}
      </div>
      <div className="wb-Experiment-line wb-Experiment-small">
        <span className="wb-Experiment-trials">{trialsOf({ experiment, trans })}</span>
        <span className="wb-Experiment-age" title={new Date(created).toLocaleString()}>
          {age(created, trans)}
        </span>
      </div>
      {experiment.reason && state === 'waiting' && (
        <div className="wb-Experiment-small wb-Experiment-reason">{experiment.reason}</div>
      )}
      {((tags?.length ?? 0) > 0 || note) && (
        <div className="wb-Experiment-line wb-Experiment-small">
          <span className="wb-Experiment-tags">
            {tags?.map(tag => (
              <span key={tag} className="wb-Tag">
                {tag}
              </span>
            ))}
            {note && (
              <span className="wb-Experiment-remark" title={note}>
                {note}
              </span>
            )}
          </span>
        </div>
      )}
      <Outcome outcome={experiment.outcome} few={true} />
      <Troubles troubles={experiment.troubles} trans={trans} />
      {running && (
        <progress className="wb-Progress" max={1} value={progress} aria-label={trans.__('Progress of %1', label)} />
      )}
    </>
  );
});

/** `17 of 49 trials ended, 5 min left`: the sidebar is narrow. */
function trialsOf({ experiment: { trials, counts, seconds_left }, trans }: IRow): string {
  const ended = [counted(trials, trans), settingUp(counts, trans)].filter(Boolean).join(', ');
  return typeof seconds_left === 'number' ? trans.__('%1, %2 left', ended, lasting(seconds_left, trans)) : ended;
}
