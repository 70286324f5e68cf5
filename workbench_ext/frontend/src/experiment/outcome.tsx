/** Problems: failures, inexact resumes. Law: the server's words; a sign beside each. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { IOutcome, ITrial } from '../server/api';

/** Names that a trial has lost by resuming; null if none. */
export function lostNames({ inexact }: Pick<ITrial, 'inexact'>): string | null {
  return inexact?.length ? inexact.map(({ name }) => name).join(', ') : null;
}

/** That a trial was resumed inexactly: a sign and words, or with `short` the sign, and the words in its tip. */
export function InexactMark(props: {
  trial: Pick<ITrial, 'inexact'>;
  trans: TranslationBundle;
  short?: boolean;
}): React.JSX.Element | null {
  const { trial, trans, short } = props;
  const names = lostNames(trial);
  if (names === null) {
    return null;
  }
  const words = trans.__('resumed inexactly: %1', names);
  return short ? (
    <span className="wb-Inexact" role="img" title={words} aria-label={words}>
      ≈
    </span>
  ) : (
    <span className="wb-Inexact" title={words}>
      <span aria-hidden="true">≈</span> {words}
    </span>
  );
}

/** An experiment's outcome besides its best trial, one line for each fact; `few`: only problems. */
export function Outcome(props: { outcome: IOutcome | undefined; few?: boolean }): React.JSX.Element | null {
  const { outcome, few } = props;
  const lines: [string, string | undefined][] = [
    ['✕', outcome?.failed],
    ['✕', outcome?.promoted],
    ['≈', outcome?.inexact],
    ['=', few ? undefined : outcome?.seeds],
    ['✂', few ? undefined : outcome?.lost],
    ['⟳', few ? undefined : outcome?.checked]
  ];
  const told = lines.filter(([, words]) => words);
  return told.length === 0 ? null : (
    <ul className="wb-Outcome">
      {told.map(([sign, words]) => (
        <li key={words} title={words}>
          <span aria-hidden="true">{sign}</span> {words}
        </li>
      ))}
    </ul>
  );
}
