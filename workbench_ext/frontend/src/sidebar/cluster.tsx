/** The machines: workers, slots and their trials, memory, GPUs; and the state of the engine. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { ICluster, IHealth, IHeld, IWorker } from '../server/api';
import { useSignal } from '../hooks';
import { Followed } from '../stores/resources';
import { bytes } from '../words';
import { Bar, Section, useFollowed } from './section';

type Slots = NonNullable<ICluster['slots']>;

export function ClusterSection(props: {
  cluster: Followed<ICluster>;
  health: IHealth | null;
  trans: TranslationBundle;
  /** The store's folder, where there are several. */
  where: string | null;
  shown: boolean;
  open: boolean;
  onToggle: (open: boolean) => void;
  /** Start an engine, if none is alive. */
  startEngine: () => void;
  /** Show the page of all slots of the machine. */
  showQueue: () => void;
}): React.JSX.Element {
  const { cluster, health, trans, where, shown, open, onToggle, startEngine, showQueue } = props;
  // Without an engine there is no cluster: its last state is useless.
  const alive = health?.engine.alive ?? false;
  useFollowed(cluster, shown && alive);
  useSignal(cluster.changed);
  const { error } = cluster;
  const value = alive ? cluster.value : null;
  const workers = value?.workers ?? [];
  return (
    <Section
      title={where === null ? trans.__('Cluster') : trans.__('Cluster of %1', where)}
      summary={summary(workers, health, trans)}
      open={open}
      onToggle={onToggle}
    >
      <EngineNote health={health} trans={trans} startEngine={startEngine} />
      <p className="wb-Section-note wb-Section-tools">
        <button
          type="button"
          className="wb-Button"
          title={trans.__('Who trains in which slot of this machine, and who waits')}
          onClick={showQueue}
        >
          {trans.__('Queue')}
        </button>
      </p>
      {alive && (value === null || error) && (
        <p className="wb-Section-note">
          {error === null
            ? trans.__('Reading the cluster …')
            : value === null
              ? trans.__('The cluster cannot be read: %1', error.message)
              : trans.__('The server does not answer; this is its last answer.')}
        </p>
      )}
      {value !== null && workers.length === 0 && (
        <p className="wb-Section-note">{trans.__('No worker has joined yet.')}</p>
      )}
      {value?.memory && workers.length > 0 && <Memory memory={value.memory} trans={trans} />}
      {alive && <Others held={value?.held ?? []} root={health?.root} trans={trans} />}
      {value?.dashboard && <Pages address={value.dashboard} trans={trans} />}
      <ul className="wb-Workers">
        {workers.map(worker => (
          <Worker
            key={worker.name}
            worker={worker}
            slots={(value?.slots ?? []).filter(slot => slot.worker === worker.name)}
            trans={trans}
          />
        ))}
      </ul>
    </Section>
  );
}

function summary(workers: readonly IWorker[], health: IHealth | null, trans: TranslationBundle): string {
  if (workers.length > 0) {
    const used = workers.reduce((sum, worker) => sum + worker.used, 0);
    const all = workers.reduce((sum, worker) => sum + worker.slots, 0);
    return trans.__('%1 of %2 slots in use', used, all);
  }
  switch (health?.engine.state ?? 'none') {
    case 'dead':
      return trans.__('engine died');
    case 'none':
      return trans.__('no engine');
    default:
      return '';
  }
}

/** The state of the engine, and what to do about a problem. */
function EngineNote(props: {
  health: IHealth | null;
  trans: TranslationBundle;
  startEngine: () => void;
}): React.JSX.Element | null {
  const { health, trans, startEngine } = props;
  if (health === null) {
    return null;
  }
  const { state, host, pid } = health.engine;
  const where = host ? trans.__('%1, process %2', host, pid ?? '?') : '';
  const said: Readonly<Record<IHealth['engine']['state'], string>> = {
    running: where ? trans.__('Engine runs on %1.', where) : trans.__('The engine runs.'),
    closing: trans.__('The engine is ending: it saves its checkpoints first.'),
    none: trans.__('No engine runs: nothing trains. One starts with the next experiment.'),
    dead: where
      ? trans.__('The engine died (%1). Nothing trains until it runs again.', where)
      : trans.__('The engine died. Nothing trains until it runs again.')
  };
  return (
    <>
      <p className={`wb-Section-note${state === 'dead' ? ' wb-mod-trouble' : ''}`}>
        {said[state]}
        {state === 'dead' && (
          <button type="button" className="wb-Button" onClick={startEngine}>
            {trans.__('Start it again')}
          </button>
        )}
      </p>
      {health.readonly && (
        <p className="wb-Section-note wb-mod-trouble">
          {trans.__('The store is read-only: its engine accepts no requests.')}
        </p>
      )}
    </>
  );
}

/** Slots of this machine used by trials of other stores: ours may be waiting for them. */
export function Others(props: {
  held: readonly IHeld[];
  root?: string;
  trans: TranslationBundle;
}): React.JSX.Element | null {
  const { held, root, trans } = props;
  const others = held.filter(({ store }) => store !== root);
  if (others.length === 0) {
    return null;
  }
  return (
    <ul className="wb-Section-note wb-Others" aria-label={trans.__('Slots held by other stores')}>
      {others.map(({ slot, store, experiment, pid, since }) => (
        <li key={slot} title={trans.__('Process %1, since %2', pid, new Date(since).toLocaleString())}>
          {trans.__('%1 is held by %2', slot, experiment ? `${store} (${experiment})` : store)}
        </li>
      ))}
    </ul>
  );
}

function Pages(props: { address: string; trans: TranslationBundle }): React.JSX.Element {
  return (
    <p className="wb-Section-note">
      <a href={props.address} target="_blank" rel="noopener noreferrer">
        {props.trans.__('Dask’s dashboard')}
      </a>
    </p>
  );
}

function Memory(props: {
  memory: NonNullable<ICluster['memory']>;
  trans: TranslationBundle;
}): React.JSX.Element | null {
  const { memory, trans } = props;
  const { total, used, others } = memory;
  if (!total) {
    return null;
  }
  return (
    <div className="wb-Meter">
      <div className="wb-Meter-words">
        <span>{trans.__('Memory')}</span>
        <span>
          {others
            ? trans.__('%1 of %2, %3 held by others', bytes(used), bytes(total), bytes(others))
            : trans.__('%1 of %2', bytes(used), bytes(total))}
        </span>
      </div>
      <Bar
        parts={[
          { kind: 'used', share: (used - (others ?? 0)) / total },
          { kind: 'others', share: (others ?? 0) / total }
        ]}
      />
    </div>
  );
}

function Worker(props: { worker: IWorker; slots: Slots; trans: TranslationBundle }): React.JSX.Element {
  const { worker, slots, trans } = props;
  const facts = [
    trans._n('%1 slot', '%1 slots', worker.slots, worker.slots),
    ...(worker.memory !== null ? [bytes(worker.memory)] : []),
    ...(worker.cpu !== null ? [trans.__('%1 cores busy', worker.cpu.toFixed(1))] : [])
  ];
  return (
    <li className="wb-Worker">
      <div className="wb-Meter-words">
        <span className="wb-Worker-name" title={worker.address ?? worker.name}>
          {nameOf(worker)}
        </span>
        <span>{facts.join(' · ')}</span>
      </div>
      <ul className="wb-Slots" aria-label={trans.__('Slots of %1', worker.name)}>
        {slots.map(slot => (
          <li key={slot.slot} className={`wb-Slot${slot.trial ? ' wb-mod-used' : ''}`}>
            {slot.trial && slot.experiment
              ? [`${slot.experiment}/${slot.trial}`, ...(slot.beside ?? [])].join(', ')
              : trans.__('free')}
          </li>
        ))}
      </ul>
      {(worker.gpu ?? []).map((gpu, at) => (
        <div className="wb-Meter" key={at}>
          <div className="wb-Meter-words">
            <span>{gpu.name}</span>
            <span>
              {[
                trans.__('%1 of %2', bytes(gpu.used), bytes(gpu.total)),
                ...(gpu.utilisation !== null ? [trans.__('%1 % busy', gpu.utilisation)] : []),
                ...(gpu.others ? [trans.__('%1 held by others', bytes(gpu.others))] : [])
              ].join(' · ')}
            </span>
          </div>
          <Bar
            parts={[
              { kind: 'used', share: (gpu.used - (gpu.others ?? 0)) / gpu.total },
              { kind: 'others', share: (gpu.others ?? 0) / gpu.total }
            ]}
          />
        </div>
      ))}
    </li>
  );
}

/** Workers without a name are shown by their addresses: host and port distinguish them. */
function nameOf({ name, host }: IWorker): string {
  const port = /^\w+:\/\/.*:(\d+)$/.exec(name)?.[1];
  return port === undefined ? name : `${host ?? name}:${port}`;
}
