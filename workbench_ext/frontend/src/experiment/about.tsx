/** What an experiment was asked to do: its goal, space, scheduler and code, as its spec says them. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { Spec } from '../server/api';
import { IContext } from './context';
import { useSignal } from '../hooks';

export function AboutView({ context }: { context: IContext }): React.JSX.Element {
  const { experiment, trans } = context;
  useSignal(experiment.changed);
  if (experiment.spec === null) {
    return <p className="wb-Note">{trans.__('Reading the experiment …')}</p>;
  }
  const code = source(experiment.spec);
  return (
    <div className="wb-About">
      <dl className="wb-Facts">
        {facts(experiment.spec, trans).map(([name, value]) => (
          <React.Fragment key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </React.Fragment>
        ))}
      </dl>
      {code && (
        <section aria-label={trans.__('Code')}>
          <h3>{trans.__('Code')}</h3>
          <pre className="wb-Code">{code}</pre>
        </section>
      )}
    </div>
  );
}

/** The facts of a spec: older ones have fewer, and missing ones are not shown. */
function facts(spec: Spec, trans: TranslationBundle): [string, string][] {
  const named: [string, unknown][] = [
    [trans.__('Goal'), spec.goal],
    [trans.__('Scheduler'), spec.scheduler],
    [trans.__('Searcher'), spec.searcher],
    [trans.__('Space'), spec.space],
    [trans.__('Seed'), spec.seed],
    [trans.__('Created'), spec.created]
  ];
  return named.filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => [name, said(value)]);
}

function said(value: unknown): string {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return Object.entries(value)
      .filter(([, part]) => part !== null)
      .map(([name, part]) => `${name} ${typeof part === 'object' ? JSON.stringify(part) : String(part)}`)
      .join(', ');
  }
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function source({ program }: Spec): string | null {
  const code = (program as { source?: unknown } | undefined)?.source;
  return typeof code === 'string' ? code.trim() : null;
}
