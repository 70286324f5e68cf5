/** The store: its disk usage, and how much cleaning up would free. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { IStore } from '../server/api';
import { useSignal } from '../hooks';
import { Followed } from '../stores/resources';
import { bytes } from '../words';
import { Bar, Section, useFollowed } from './section';

export function StoreSection(props: {
  store: Followed<IStore>;
  trans: TranslationBundle;
  /** Its folder, where there are several. */
  where: string | null;
  shown: boolean;
  open: boolean;
  onToggle: (open: boolean) => void;
  cleanUp: () => void;
}): React.JSX.Element {
  const { store, trans, where, shown, open, onToggle, cleanUp } = props;
  useFollowed(store, shown);
  useSignal(store.changed);
  const { value, error } = store;
  return (
    <Section
      title={where === null ? trans.__('Store') : trans.__('Store of %1', where)}
      summary={value ? trans.__('%1 used', bytes(value.bytes)) : ''}
      open={open}
      onToggle={onToggle}
    >
      {error && (
        <p className="wb-Section-note">
          {value === null
            ? trans.__('The store cannot be read: %1', error.message)
            : trans.__('The server does not answer; this is its last answer.')}
        </p>
      )}
      {value === null && !error && <p className="wb-Section-note">{trans.__('Reading the store …')}</p>}
      {value !== null && (
        <>
          <div className="wb-Meter">
            <div className="wb-Meter-words">
              <span title={value.root}>{trans.__('Disk')}</span>
              <span>
                {value.quota
                  ? trans.__('%1 of %2 allowed', bytes(value.bytes), bytes(value.quota))
                  : value.free === null
                    ? trans.__('%1 used', bytes(value.bytes))
                    : trans.__('%1 used, %2 free', bytes(value.bytes), bytes(value.free))}
              </span>
            </div>
            <Bar
              parts={[
                {
                  kind: 'used',
                  share: value.bytes / Math.max(1, value.quota ?? value.bytes + (value.free ?? 0))
                }
              ]}
            />
          </div>
          <div className="wb-Meter-words">
            <span>
              {value.reclaimable > 0
                ? trans.__('Cleaning up would free %1.', bytes(value.reclaimable))
                : trans.__('Nothing to clean up.')}
            </span>
            {value.reclaimable > 0 && (
              <button type="button" className="wb-Button" onClick={cleanUp}>
                {trans.__('Clean up …')}
              </button>
            )}
          </div>
        </>
      )}
    </Section>
  );
}
