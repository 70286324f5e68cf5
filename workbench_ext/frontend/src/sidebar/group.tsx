/** The experiments of one store among several: a head that folds, and what is below it. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { ENDED } from '../server/api';
import { StoreModel } from '../stores/stores';

export function Group(props: {
  store: StoreModel;
  trans: TranslationBundle;
  open: boolean;
  onToggle: (open: boolean) => void;
  children: React.ReactNode;
}): React.JSX.Element {
  const { store, trans, open, onToggle, children } = props;
  const { info } = store;
  const id = React.useId();
  return (
    <section className="wb-Group" aria-labelledby={`${id}-title`}>
      <h3 className="wb-Section-head">
        <button
          type="button"
          className="wb-Section-toggle wb-Group-toggle"
          aria-expanded={open}
          aria-controls={`${id}-body`}
          title={info.root}
          onClick={() => onToggle(!open)}
        >
          <span className="wb-Section-caret" aria-hidden="true" />
          <span id={`${id}-title`} className="wb-Group-name">
            {store.label}
          </span>
          {info.exists && !info.ours && (
            <span className={`wb-Group-mark${info.published ? ' wb-mod-published' : ''}`} title={info.why}>
              {info.published ? trans.__('published') : trans.__('read-only: not adopted')}
            </span>
          )}
          <span className="wb-Section-summary">{summary(store, trans)}</span>
        </button>
      </h3>
      <div id={`${id}-body`} hidden={!open}>
        {open && children}
      </div>
    </section>
  );
}

/** `2 of 14 under way`, from the list if it is known, and else from the server's line about the store. */
function summary({ info, experiments }: StoreModel, trans: TranslationBundle): string {
  const rows = experiments.experiments;
  const all = rows?.length ?? info.experiments;
  const going = rows?.filter(({ state }) => !ENDED.has(state)).length ?? info.under_way;
  return going > 0 ? trans.__('%1 of %2 under way', going, all) : String(all);
}
