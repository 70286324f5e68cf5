/** Parts of a trial's page: checkpoints, restarts, discovered state, and the snapshot. */

import * as React from 'react';

import { ICheckpoint, IDataFile, ISnapshot, ITrialAnswer, experimentPath } from '../server/api';
import { IContext } from '../experiment/context';
import { useAsked } from '../hooks';
import { bytes } from '../words';
import { Facts, Value, isEmpty } from './facts';

/** Each checkpoint with its contents. No clean-up removes a pinned one. */
export function Checkpoints(props: {
  context: IContext;
  trial: number;
  checkpoints: readonly ICheckpoint[];
  changed: () => void;
}): React.JSX.Element {
  const { context, trial, checkpoints, changed } = props;
  const { commands, experiment, trans } = context;
  const [asking, setAsking] = React.useState<number | null>(null);
  if (checkpoints.length === 0) {
    return <p className="wb-Trial-none">{trans.__('None yet, or none was kept.')}</p>;
  }
  const pin = async ({ step, pinned, pinned_with: whole }: ICheckpoint) => {
    setAsking(step);
    // The pin of a trial is one: it is not removed from a single checkpoint.
    const what = whole === 'trial' ? {} : { step };
    await commands.execute('workbench:pin', { ...experiment.named, trial, ...what, pinned });
    changed();
    setAsking(null);
  };
  const words = ({ step, pinned, pinned_with: whole }: ICheckpoint) => {
    if (whole === 'trial') {
      return { text: trans.__('Unpin the Trial'), label: trans.__('Unpin the Trial') };
    }
    return pinned
      ? { text: trans.__('Unpin'), label: trans.__('Unpin step %1', step) }
      : { text: trans.__('Pin'), label: trans.__('Pin step %1', step) };
  };
  return (
    <ul className="wb-Checkpoints">
      {checkpoints.map(one => (
        <li key={one.step}>
          <div className="wb-Checkpoint-line">
            <strong>{trans.__('step %1', one.step)}</strong>
            {one.sound ? (
              <span>{bytes(one.bytes ?? 0)}</span>
            ) : (
              <span className="wb-Checkpoint-bad">✕ {one.why ?? trans.__('damaged')}</span>
            )}
            {one.pinned && (
              <span>
                {one.pinned_with === 'experiment' ? trans.__('pinned with its experiment') : trans.__('pinned')}
              </span>
            )}
            {one.sound && one.pinned_with !== 'experiment' && commands.hasCommand('workbench:pin') && (
              <button
                type="button"
                className="wb-Button"
                disabled={asking !== null}
                aria-label={words(one).label}
                onClick={() => void pin(one)}
              >
                {words(one).text}
              </button>
            )}
          </div>
          {one.holds.length > 0 && <div className="wb-Checkpoint-holds">{one.holds.join(', ')}</div>}
        </li>
      ))}
    </ul>
  );
}

/** Each time it was started again, and why. */
export function Restarts(props: { context: IContext; restarts: ITrialAnswer['restarts'] }): React.JSX.Element {
  const { context, restarts } = props;
  const { trans } = context;
  return (
    <ol className="wb-Restarts">
      {restarts.map(({ attempt, at, cause, reason, step }) => (
        <li key={attempt}>
          <div>
            <strong>{trans.__('attempt %1 from step %2', attempt, step ?? 0)}</strong>{' '}
            {cause && <span className="wb-Restart-cause">{cause}</span>}{' '}
            <time dateTime={at} title={at}>
              {new Date(at).toLocaleString()}
            </time>
          </div>
          {reason && <div className="wb-Checkpoint-holds">{reason}</div>}
        </li>
      ))}
    </ol>
  );
}

/** The state discovered in the training code's names, and what was left out. */
export function Found(props: { context: IContext; found: ITrialAnswer['found'] }): React.JSX.Element {
  const { context, found } = props;
  const { trans } = context;
  if (!found || Object.values(found).every(isEmpty)) {
    return <p className="wb-Trial-none">{trans.__('Nothing was recorded yet.')}</p>;
  }
  const { objects, names, left_out: left, ...more } = found;
  return (
    <Facts
      data={{
        [trans.__('objects')]: objects,
        [trans.__('values')]: names,
        [trans.__('left out')]: left,
        ...more
      }}
    />
  );
}

/** The files that training code named, and those that it was seen to read. */
export function Data(props: { context: IContext; data: ITrialAnswer['data'] }): React.JSX.Element {
  const { context, data } = props;
  const { trans } = context;
  const beyond = data.seen?.beyond ?? 0;
  const list = (files: Readonly<Record<string, IDataFile>>) => (
    <ul className="wb-Data">
      {Object.entries(files).map(([path, file]) => (
        <li key={path}>
          <div className="wb-Data-path">{path}</div>
          <div className="wb-Checkpoint-holds">{fileWords(file, trans)}</div>
        </li>
      ))}
    </ul>
  );
  return (
    <>
      {!isEmpty(data.named) && (
        <>
          <div>{trans.__('Named')}</div>
          {list(data.named)}
        </>
      )}
      {data.seen && !isEmpty(data.seen.files) && (
        <>
          <div>{trans.__('Seen; there may be more')}</div>
          {list(data.seen.files)}
          {beyond > 0 && <div>{trans._n('and %1 more', 'and %1 more', beyond, beyond)}</div>}
        </>
      )}
    </>
  );
}

/** A file's size, rows, time and digest. */
export function fileWords(file: IDataFile, trans: IContext['trans']): string {
  const { size, files, rows, modified, digest, sampled } = file;
  return [
    size === undefined ? null : bytes(size),
    files ? trans._n('%1 file', '%1 files', files, files) : null,
    typeof rows !== 'number' ? null : trans._n('%1 row', '%1 rows', rows, rows),
    modified ? new Date(modified).toLocaleString() : null,
    digest ? trans.__('digest %1', digest.slice(0, 8)) : trans.__('not read in time'),
    sampled ? trans.__('of samples') : null
  ]
    .filter(Boolean)
    .join(', ');
}

/** The code, environment and data that were frozen when the experiment was started. */
export function Snapshot({ context }: { context: IContext }): React.JSX.Element {
  const { api, experiment, trans } = context;
  const has = Boolean(experiment.spec?.snapshot);
  const asked = useAsked(
    async () => (has ? api.get<ISnapshot>(experimentPath(experiment.ref, 'snapshot')) : null),
    [experiment, has]
  );
  const snapshot = asked.value;
  if (!has) {
    return <p className="wb-Trial-none">{trans.__('It has none: it was not started from a notebook.')}</p>;
  }
  if (!snapshot) {
    return <p className="wb-Trial-none">{asked.error?.message ?? '…'}</p>;
  }
  const { distributions, libraries, variables, ...machine } = snapshot.environment ?? {};
  return (
    <>
      <Facts
        data={{
          ...machine,
          [trans.__('libraries')]: libraries,
          [trans.__('digest')]: snapshot.digest.slice(0, 16)
        }}
      />
      <More title={trans.__('Cells (%1)', snapshot.cells.length)} isThere={snapshot.cells.length > 0}>
        {snapshot.cells.map(({ n, source }) => (
          <div key={n}>
            <div className="wb-Cell-number">[{n}]</div>
            <pre className="wb-Code">{source}</pre>
          </div>
        ))}
      </More>
      <More title={trans.__('Data (%1)', snapshot.data.length)} isThere={snapshot.data.length > 0}>
        <Value value={snapshot.data} />
      </More>
      <More title={trans.__('Packages')} isThere={!isEmpty(distributions)}>
        <Value value={distributions} />
      </More>
      <More title={trans.__('Variables')} isThere={!isEmpty(variables)}>
        <Value value={variables} />
      </More>
    </>
  );
}

/** A part that is opened by its title; nothing if it is empty. */
export function More(props: { title: string; isThere: boolean; children: React.ReactNode }): React.JSX.Element | null {
  return props.isThere ? (
    <details className="wb-More">
      <summary>{props.title}</summary>
      {props.children}
    </details>
  ) : null;
}
