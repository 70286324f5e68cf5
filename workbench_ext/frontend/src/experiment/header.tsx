/** The header of an experiment's page: its name, its progress, and commands. */

import * as React from 'react';

import { openExperimentMenu } from '../commands/groups';
import { IContext } from './context';
import { useCommands, useSignal } from '../hooks';
import { Outcome } from './outcome';
import { Since, sinceWords } from './since';
import { Troubles } from './trouble';
import { StateMark, clock, counted, lasting, settingUp, spreadWords } from '../words';
import { shown } from '../numbers';

export function Header({ context, since }: { context: IContext; since: Since }): React.JSX.Element {
  const { experiment, trans } = context;
  useSignal(experiment.changed);
  const row = experiment.row!;
  return (
    <header className="wb-Header">
      <div className="wb-Header-line">
        <h2 className="wb-Header-name">{row.label}</h2>
        {context.where && <span>{trans.__('in %1', context.where)}</span>}
        <StateMark state={row.state} trans={trans} />
        {row.best && row.goal && (
          <span className="wb-Header-best">
            {row.goal.metric} <strong>{shown(row.best.value)}</strong> (
            {[row.best.trial, spreadWords(row.best, trans)].filter(Boolean).join(', ')})
          </span>
        )}
        <span>{counted(row.trials, trans)}</span>
        {settingUp(row.counts, trans) && <span>{settingUp(row.counts, trans)}</span>}
        {row.slots && !experiment.ended && <span>{trans.__('%1 of %2 slots', row.slots.used, row.slots.given)}</span>}
        {typeof row.seconds_left === 'number' && !experiment.ended && (
          <span>{trans.__('about %1 left', lasting(row.seconds_left, trans))}</span>
        )}
        <span title={new Date(row.created).toLocaleString()}>{trans.__('started %1', clock(row.created))}</span>
        <Actions context={context} />
      </div>
      {row.reason && (
        <div className="wb-Header-reason">
          {row.reason}
          {row.state === 'waiting' && context.commands.hasCommand('workbench:queue') && (
            <button type="button" className="wb-Link" onClick={() => void context.commands.execute('workbench:queue')}>
              {trans.__('See the queue')}
            </button>
          )}
        </div>
      )}
      <Outcome outcome={row.outcome} />
      <Troubles troubles={row.troubles} trans={trans} whole={true} />
      {((row.tags?.length ?? 0) > 0 || row.note) && (
        <div className="wb-Header-note">
          {row.tags?.map(tag => (
            <span key={tag} className="wb-Tag">
              {tag}
            </span>
          ))}
          {row.note}
        </div>
      )}
      <Happened context={context} since={since} />
      {experiment.stale && (
        <div className="wb-Stale" role="status">
          {trans.__('The server does not answer; this is its last answer.')}
        </div>
      )}
      {row.progress !== null && !experiment.ended && (
        <progress
          className="wb-Progress"
          max={1}
          value={row.progress}
          aria-label={trans.__('Progress of %1', row.label)}
        />
      )}
    </header>
  );
}

/** The most common commands, and a menu of all. */
function Actions({ context }: { context: IContext }): React.JSX.Element {
  const { commands, experiment, trans } = context;
  useCommands(commands);
  const args = experiment.named;
  const going = !experiment.ended;
  const offered = [
    ...(going ? [experiment.row?.state === 'paused' ? 'workbench:resume' : 'workbench:pause'] : []),
    ...(going ? ['workbench:stop'] : []),
    'workbench:go-to-cell'
  ];
  return (
    <span className="wb-Header-actions" role="toolbar" aria-label={trans.__('Actions')}>
      {offered
        .filter(command => commands.hasCommand(command) && commands.isVisible(command, args))
        .map(command => (
          <button
            key={command}
            type="button"
            className="wb-Button"
            title={commands.caption(command, args) || undefined}
            disabled={!commands.isEnabled(command, args)}
            onClick={() => void commands.execute(command, args)}
          >
            {commands.label(command, args)}
          </button>
        ))}
      <button
        type="button"
        className="wb-Button wb-More"
        title={trans.__('More actions')}
        aria-label={trans.__('More actions')}
        aria-haspopup="menu"
        onClick={event => openExperimentMenu(commands, args, event.currentTarget)}
      >
        ⋯
      </button>
    </span>
  );
}

/** What happened since the user last looked. */
function Happened({ context: { trans }, since }: { context: IContext; since: Since }): React.JSX.Element | null {
  useSignal(since.changed);
  if (since.happened === null) {
    return null;
  }
  return (
    <div className="wb-Since" role="status">
      <span>
        <strong>{trans.__('Since your last visit:')}</strong> {sinceWords(since.happened, trans)}
      </span>
      <button
        type="button"
        className="wb-Button"
        onClick={() => since.dismiss()}
        aria-label={trans.__('Dismiss the changes since your last visit')}
      >
        {trans.__('Seen')}
      </button>
    </div>
  );
}
