/** The page of the machine's slots: who trains in each, what it uses, who waits and why. Law: never fetches. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { useSignal } from '../hooks';
import { IQueue, IQueueCluster, IQueueSlot, IWaits } from '../server/api';
import { Followed } from '../stores/resources';
import { age, bytes } from '../words';
import { IPlace, named, places, summary, trainsOf } from './queue';

export interface IQueueActions {
  /** How to open an experiment's page; null if this server does not show its store. */
  opener(store: string | null, experiment: string): (() => void) | null;
  /** Take a slot out of use, or let trials use it again. */
  use(slot: string, used: boolean): void;
}

export interface IQueueProps extends IQueueActions {
  readonly trans: TranslationBundle;
}

export function QueueView(props: IQueueProps & { queue: Followed<IQueue> }): React.JSX.Element {
  const { queue, trans } = props;
  useSignal(queue.changed);
  const { value, error } = queue;
  return (
    <div className="wb-Queue">
      <header className="wb-Header-line">
        <h2 className="wb-Header-name">{trans.__('Queue')}</h2>
        <span role="status">{value ? summary(value, trans) : trans.__('Reading the queue …')}</span>
      </header>
      {error && (
        <div className="wb-Stale" role="status">
          {value === null
            ? trans.__('The queue cannot be read: %1', error.message)
            : trans.__('The server does not answer; this is its last answer.')}
        </div>
      )}
      {value && <QueueTables {...props} queue={value} />}
    </div>
  );
}

/** The slots, and below them who waits. */
export function QueueTables(props: IQueueProps & { queue: IQueue }): React.JSX.Element {
  const { queue, trans } = props;
  const all = places(queue);
  const gpus = all.some(({ held }) => held?.gpu);
  const troubles = new Map(queue.slots.filter(one => one.trouble).map(one => [one.place, one.trouble]));
  return (
    <>
      <table className="wb-Queue-slots" aria-label={trans.__('Slots of this machine')}>
        <thead>
          <tr>
            <th scope="col">{trans.__('Slot')}</th>
            <th scope="col">{trans.__('Trains')}</th>
            <th scope="col" className="wb-mod-number" title={trans.__('Processor time by time: 100 % is one core')}>
              {trans.__('Core')}
            </th>
            <th scope="col" className="wb-mod-number">
              {trans.__('Memory')}
            </th>
            {gpus && (
              <>
                <th scope="col" className="wb-mod-number">
                  {trans.__('GPU')}
                </th>
                <th scope="col" className="wb-mod-number">
                  {trans.__('GPU memory')}
                </th>
                <th scope="col" className="wb-mod-number">
                  {trans.__('Power')}
                </th>
              </>
            )}
            <th scope="col" className="wb-mod-number">
              {trans.__('Since')}
            </th>
            <th scope="col">
              <span className="wb-Hidden">{trans.__('Actions')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {all.map(place => (
            <Slot key={place.slot} {...props} place={place} gpus={gpus} />
          ))}
        </tbody>
      </table>
      {[...troubles].map(([place, words]) => (
        <p key={place} className="wb-Queue-note wb-mod-trouble">
          {place}: {words}.
        </p>
      ))}
      {queue.outside.map(({ gpu, pid, name, memory_bytes }) => (
        <p key={`${gpu} ${pid}`} className="wb-Queue-note">
          {trans.__(
            '%1: %2 is held outside of Workbench, by %3 (process %4).',
            gpu,
            memory_bytes === null ? trans.__('memory') : bytes(memory_bytes),
            name,
            pid
          )}
        </p>
      ))}
      {queue.lacks.map(({ store, place, experiment, why }) => (
        <p key={`${store} ${experiment} waits`} className="wb-Queue-note">
          {place} ({experiment}) {why}.
        </p>
      ))}
      {queue.divided.map(({ store, place, experiment, why }) => (
        <p key={`${store} ${experiment}`} className="wb-Queue-note">
          {place} ({experiment}): {why}.
        </p>
      ))}
      <h3 className="wb-Queue-head">{trans.__('Waiting')}</h3>
      {queue.waiting.length === 0 ? (
        <p className="wb-Queue-note">{trans.__('No search waits for a slot.')}</p>
      ) : (
        <ol className="wb-Queue-waiting" aria-label={trans.__('Waiting, in the order in which they get a slot')}>
          {queue.waiting.map((one, at) => (
            <Waiting key={at} {...props} one={one} />
          ))}
        </ol>
      )}
      {queue.clusters.map(cluster => (
        <Cluster key={cluster.address} {...props} cluster={cluster} />
      ))}
    </>
  );
}

/** A cluster that was given by its address: who holds its slots, and who waits there. */
function Cluster(props: IQueueProps & { cluster: IQueueCluster }): React.JSX.Element {
  const { cluster, trans, opener } = props;
  const { address, slots, free, waiting, trouble } = cluster;
  return (
    <section aria-label={trans.__('Cluster at %1', address)}>
      <h3 className="wb-Queue-head">{trans.__('Cluster at %1', address)}</h3>
      {trouble && <p className="wb-Queue-note wb-mod-trouble">{trouble}.</p>}
      {slots.length > 0 && (
        <table className="wb-Queue-slots" aria-label={trans.__('Slots of the cluster at %1', address)}>
          <thead>
            <tr>
              <th scope="col">{trans.__('Slot')}</th>
              <th scope="col">{trans.__('Trains')}</th>
              <th scope="col" className="wb-mod-number">
                {trans.__('Since')}
              </th>
            </tr>
          </thead>
          <tbody>
            {slots.map(({ slot, store, place, experiment, trial, since }) => (
              <tr key={slot}>
                <th scope="row">{slot}</th>
                <td>
                  <Opening
                    words={experiment ? (trial ? `${experiment}/${trial}` : experiment) : trans.__('nothing yet')}
                    open={experiment ? opener(store, experiment) : null}
                  />
                  <small title={store ?? undefined}>{place}</small>
                </td>
                <td className="wb-mod-number">{since ? age(since, trans) : '–'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <p className="wb-Queue-note">{trans._n('%1 slot is free.', '%1 slots are free.', free.length, free.length)}</p>
      {waiting.length > 0 && (
        <ol className="wb-Queue-waiting" aria-label={trans.__('Waiting at %1', address)}>
          {waiting.map((one, at) => (
            <Waiting key={at} {...props} one={one} />
          ))}
        </ol>
      )}
    </section>
  );
}

function Slot(props: IQueueProps & { place: IPlace; gpus: boolean }): React.JSX.Element {
  const { trans, place, gpus, use } = props;
  const { slot, held, drained } = place;
  const gpu = held?.gpu ?? null;
  return (
    <tr className={drained ? 'wb-mod-drained' : undefined}>
      <th scope="row">{slot}</th>
      <td>
        {held ? <Held {...props} held={held} /> : <span>{drained ? trans.__('drained') : trans.__('free')}</span>}
        {held && drained && <small>{trans.__('drained: it saves, and makes room')}</small>}
      </td>
      <td className="wb-mod-number">{share(held?.utilisation)}</td>
      <td className="wb-mod-number">{typeof held?.memory_bytes === 'number' ? bytes(held.memory_bytes) : '–'}</td>
      {gpus && (
        <>
          <td className="wb-mod-number">{share(gpu?.utilisation)}</td>
          <td className="wb-mod-number">
            {gpu ? trans.__('%1 of %2', bytes(gpu.memory_bytes), bytes(gpu.memory_total_bytes)) : '–'}
          </td>
          <td className="wb-mod-number">{typeof gpu?.power_w === 'number' ? `${Math.round(gpu.power_w)} W` : '–'}</td>
        </>
      )}
      <td
        className="wb-mod-number"
        title={
          held?.since
            ? trans.__('Process %1, since %2', held.pid ?? '?', new Date(held.since).toLocaleString())
            : undefined
        }
      >
        {held?.since ? age(held.since, trans) : '–'}
      </td>
      <td className="wb-Queue-action">
        <button
          type="button"
          className="wb-Button"
          title={
            drained
              ? trans.__('Let trials use it again')
              : trans.__('Take it out of use: its trial saves, and continues in another slot')
          }
          aria-label={drained ? trans.__('Use %1 again', slot) : trans.__('Drain %1', slot)}
          onClick={() => use(slot, drained)}
        >
          {drained ? trans.__('Use again') : trans.__('Drain')}
        </button>
      </td>
    </tr>
  );
}

function Held({ held, trans, opener }: IQueueProps & { held: IQueueSlot }): React.JSX.Element {
  const trains = trainsOf(held);
  const open = held.experiment ? opener(held.store, held.experiment) : null;
  return (
    <>
      <Opening
        words={trains ?? (held.user === null ? trans.__('nothing yet') : trans.__('another user'))}
        open={open}
      />
      <small title={held.store ?? undefined}>{held.place}</small>
    </>
  );
}

function Waiting({ one, trans, opener }: IQueueProps & { one: IWaits }): React.JSX.Element {
  const since = age(one.since, trans);
  const facts = [
    one.place,
    trans._n('has %1 slot', 'has %1 slots', one.held, one.held),
    trans.__('could use %1 more', one.lacks),
    ...(one.weight !== 1 ? [trans.__('weight %1', one.weight)] : []),
    ...(one.priority !== 0 ? [trans.__('priority %1', one.priority)] : []),
    trans.__('can use %1', named(one.wants) || '–')
  ];
  return (
    <li>
      <span className="wb-Queue-line">
        {one.experiments.map(label => (
          <Opening key={label} words={label} open={opener(one.store, label)} />
        ))}
        <span title={new Date(one.since).toLocaleString()}>
          {since && since !== trans.__('now') ? trans.__('for %1', since) : since}
        </span>
      </span>
      <span className="wb-Queue-why">{one.why}</span>
      <small title={one.store ?? undefined}>{facts.join(' · ')}</small>
    </li>
  );
}

function Opening({ words, open }: { words: string; open: (() => void) | null }): React.JSX.Element {
  return open ? (
    <button type="button" className="wb-Link" onClick={open}>
      {words}
    </button>
  ) : (
    <span className="wb-Queue-trains">{words}</span>
  );
}

function share(value: number | null | undefined): string {
  return typeof value === 'number' ? `${Math.round(100 * value)} %` : '–';
}
