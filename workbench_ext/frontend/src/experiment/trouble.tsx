/** Why an experiment or its copies wait: no disk space, a storage or a mirror. Law: sign, word, and the reason. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { ITrouble } from '../server/api';

const SIGNS = { room: '▤', storage: '⇪', mirror: '⇄' };

/** Few words for what is the matter. */
function troubleWord({ kind }: ITrouble, trans: TranslationBundle): string {
  switch (kind) {
    case 'room':
      return trans.__('no room on the disk');
    case 'storage':
      return trans.__('storage unreachable');
    case 'mirror':
      return trans.__('mirror unreachable');
  }
}

/** All problems, each with a sign and a word; the reason follows, or is only in the tooltip. */
export function Troubles(props: {
  troubles: readonly ITrouble[] | undefined;
  trans: TranslationBundle;
  whole?: boolean;
}): React.JSX.Element | null {
  const { troubles, trans, whole } = props;
  if (!troubles?.length) {
    return null;
  }
  return (
    <div className="wb-Troubles" role="status">
      {troubles.map(trouble => (
        <span key={trouble.kind} className="wb-Trouble" title={trouble.words}>
          <span aria-hidden="true">{SIGNS[trouble.kind]}</span> <strong>{troubleWord(trouble, trans)}</strong>
          {whole && `: ${trouble.words}`}
        </span>
      ))}
    </div>
  );
}
