/** One trial: its configuration, reports, files and output, and what happened to it. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { ENDED, ITrialAnswer, experimentPath } from '../server/api';
import { IContext } from '../experiment/context';
import { useAsked, useSignal } from '../hooks';
import { shown } from '../numbers';
import { StateMark, hasDiverged } from '../words';
import { Facts, Value, isEmpty } from './facts';
import { TrialCurves, TrialSystem, useRounds } from './curves';
import { Traceback } from './failure';
import { TrialFiles } from './files';
import { TrialLog } from './log';
import { Checkpoints, Data, Found, Restarts, Snapshot } from './parts';

export function TrialView(props: { context: IContext; trial: number }): React.JSX.Element {
  const { context, trial: number } = props;
  const { api, experiment, trans } = context;
  useSignal(experiment.changed);
  const row = experiment.trials.get(number);
  // What is read from disk is read again when the trial's row changed: its `change` counts them.
  const turn = row?.change ?? 0;
  const [again, setAgain] = React.useState(0);
  const asked = useAsked(
    () => api.get<ITrialAnswer>(experimentPath(experiment.ref, 'trials', number)),
    [experiment, number, turn, again]
  );
  const rounds = useRounds(experiment, number, turn);
  const page = asked.value;
  const trial = row ?? page?.trial;
  if (!trial) {
    return (
      <p className="wb-Note" role="status">
        {asked.error ? asked.error.message : trans.__('Reading the trial …')}
      </p>
    );
  }
  const facts: [string, React.ReactNode][] = [
    [
      experiment.goal?.metric ?? trans.__('value'),
      hasDiverged(trial.value) ? trans.__('diverged') : shown(trial.value)
    ],
    [trans.__('best'), shown(trial.best)],
    ...(typeof trial.mean === 'number' ? [meanFact(trial.mean, trial.deviation, trans)] : []),
    [trans.__('step'), trial.step ?? 0],
    [trans.__('attempt'), trial.attempt]
  ];
  const error = trial.error ?? page?.trial.error;
  return (
    <article className="wb-Trial" aria-label={trial.label}>
      <Head context={context} number={number} label={trial.label}>
        <StateMark state={trial.state} since={trial.since} trans={trans} />
        {facts.map(([name, value]) => (
          <span key={name}>
            {name} <strong>{value}</strong>
          </span>
        ))}
      </Head>
      {trial.reason && <p className="wb-Trial-reason">{trial.reason}</p>}
      {page?.inexact && (
        <p className="wb-Inexact" role="status">
          <span aria-hidden="true">≈</span> {trans.__('resumed inexactly: %1', page.inexact)}
        </p>
      )}
      {asked.error && (
        <p className="wb-Stale" role="status">
          {asked.error.message}
        </p>
      )}
      {!isEmpty(error) && (
        <Section title={trans.__('Error')}>
          <Traceback text={typeof error === 'string' ? error : JSON.stringify(error, null, 2)} />
        </Section>
      )}
      <div className="wb-Trial-columns">
        <div>
          <Section title={trans.__('Metrics')}>
            <TrialCurves context={context} rounds={rounds} />
          </Section>
          <TrialSystem context={context} rounds={rounds}>
            {curves => <Section title={trans.__('System')}>{curves}</Section>}
          </TrialSystem>
          <TrialFiles context={context} trial={number} turn={turn} />
          <Section title={trans.__('Log')}>
            <TrialLog context={context} trial={number} ended={ENDED.has(trial.state)} />
          </Section>
        </div>
        <div>
          <Section
            title={
              page && page.given.length > 0
                ? trans.__('Configuration (given: %1)', page.given.join(', '))
                : trans.__('Configuration')
            }
          >
            <Facts data={trial.configuration ?? {}} />
          </Section>
          {page && (
            <>
              {!isEmpty(page.verify) && (
                <Section title={trans.__('Verified')}>
                  <Facts data={page.verify!} />
                </Section>
              )}
              <Section title={trans.__('Checkpoints')}>
                <Checkpoints
                  context={context}
                  trial={number}
                  checkpoints={page.checkpoints}
                  changed={() => setAgain(count => count + 1)}
                />
              </Section>
              {page.restarts.length > 0 && (
                <Section title={trans.__('Restarts')}>
                  <Restarts context={context} restarts={page.restarts} />
                </Section>
              )}
              <Section title={trans.__('What a checkpoint holds')}>
                <Found context={context} found={page.found} />
              </Section>
              {(!isEmpty(page.data.named) || !isEmpty(page.data.seen?.files)) && (
                <Section title={trans.__('Data')}>
                  <Data context={context} data={page.data} />
                </Section>
              )}
              {!isEmpty(page.seeds) && (
                <Section title={trans.__('Seeds')}>
                  <Facts data={page.seeds} />
                </Section>
              )}
              {!isEmpty(page.lineage) && (
                <Section title={trans.__('Lineage')}>
                  <Value value={page.lineage} />
                </Section>
              )}
              {!isEmpty(page.environment) && (
                <Section title={trans.__('Where it trained')}>
                  <Facts data={page.environment} />
                </Section>
              )}
              <Section title={trans.__('Snapshot')}>
                <Snapshot context={context} />
              </Section>
            </>
          )}
        </div>
      </div>
    </article>
  );
}

/** The commands of the page, each shown while it is possible. */
const COMMANDS: readonly string[] = [
  'workbench:pause-trial',
  'workbench:resume-trial',
  'workbench:stop',
  'workbench:replay',
  'workbench:verify',
  'workbench:fork',
  'workbench:pin'
];

/** Its name, the previous and the next trial, and commands. */
function Head(props: {
  context: IContext;
  number: number;
  label: string;
  children: React.ReactNode;
}): React.JSX.Element {
  const { context, number, label, children } = props;
  const { commands, experiment, trans } = context;
  const numbers = [...experiment.trials.keys()].sort((a, b) => a - b);
  const at = numbers.indexOf(number);
  const name = `${experiment.row?.label ?? experiment.ref}/${label}`;
  const go = (to: number | undefined, words: string, sign: string) => (
    <button
      type="button"
      className="wb-Button"
      disabled={to === undefined}
      title={words}
      aria-label={words}
      onClick={() => to !== undefined && context.openTrial(to)}
    >
      {sign}
    </button>
  );
  const args = { ...experiment.named, trial: number, label, reference: name };
  return (
    <header className="wb-Trial-head">
      {go(numbers[at - 1], trans.__('Previous trial'), '‹')}
      {go(at >= 0 ? numbers[at + 1] : undefined, trans.__('Next trial'), '›')}
      <h3 className="wb-Trial-name">{label}</h3>
      {children}
      <span className="wb-Trial-actions">
        {COMMANDS.filter(
          id => commands.hasCommand(id) && commands.isVisible(id, args) && commands.isEnabled(id, args)
        ).map(id => (
          <button
            key={id}
            type="button"
            className="wb-Button"
            title={commands.caption(id, args)}
            onClick={() => void commands.execute(id, args)}
          >
            {commands.label(id, args)}
          </button>
        ))}
      </span>
    </header>
  );
}

function Section({ title, children }: { title: string; children: React.ReactNode }): React.JSX.Element {
  return (
    <section className="wb-Part" aria-label={title}>
      <h4>{title}</h4>
      {children}
    </section>
  );
}

function meanFact(mean: number, deviation: number | null | undefined, trans: TranslationBundle): [string, string] {
  return [trans.__('mean of its configuration'), `${shown(mean)} ± ${shown(deviation)}`];
}
