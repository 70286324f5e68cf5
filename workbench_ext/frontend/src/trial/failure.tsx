/** Errors of training code. Law: the traceback as Python printed it; the line to change is marked. */

import * as React from 'react';

import { IContext } from '../experiment/context';
import { tracebackLines } from './traceback';

/** A traceback whose marked line also has a sign: a colour alone says nothing to some. */
export function Traceback({ text }: { text: string }): React.JSX.Element {
  return (
    <pre className="wb-Code wb-Trial-error" tabIndex={0}>
      {tracebackLines(text).map(({ text, marked }, index) =>
        marked ? (
          <mark key={index} className="wb-Trial-line">
            {`▶${text.slice(1)}\n`}
          </mark>
        ) : (
          `${text}\n`
        )
      )}
    </pre>
  );
}

/** The error of the first trial that has one, for an experiment that failed. Its reason is in the page's header. */
export function Failure({ context }: { context: IContext }): React.JSX.Element {
  const { experiment, trans } = context;
  const trials = [...experiment.trials.values()].sort((a, b) => a.number - b.number);
  const first = trials.find(({ state, error }) => state === 'failed' && error) ?? trials.find(({ error }) => error);
  return (
    <section className="wb-View wb-Failure" aria-label={trans.__('Why it failed')}>
      {first?.error ? (
        <>
          <h4>
            {trans.__('Error of %1', first.label)}{' '}
            <button type="button" className="wb-Link" onClick={() => context.openTrial(first.number)}>
              {trans.__('open %1', first.label)}
            </button>
          </h4>
          <Traceback text={first.error} />
        </>
      ) : (
        <p>{trans.__('No trial started.')}</p>
      )}
    </section>
  );
}
