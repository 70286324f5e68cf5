/** What an experiment is: who launched it and what for, with which packages and files, and its code. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { IAbout, IDataFile, IExperiment, ISnapshot, Spec, experimentPath } from '../server/api';
import { IContext } from './context';
import { useAsked, useSignal } from '../hooks';
import { More, fileWords } from '../trial/parts';
import { Facts, Value, isEmpty } from '../trial/facts';
import { age, bytes, clock, took } from '../words';

export function AboutView({ context }: { context: IContext }): React.JSX.Element {
  const { api, experiment, trans } = context;
  useSignal(experiment.changed);
  const has = Boolean(experiment.spec?.snapshot);
  const { value: snapshot, error } = useAsked(
    async () => (has ? api.get<ISnapshot>(experimentPath(experiment.ref, 'snapshot')) : null),
    [experiment, has]
  );
  const { about, row, spec } = experiment;
  if (row === null || spec === null || !about) {
    return <p className="wb-Note">{trans.__('Reading the experiment …')}</p>;
  }
  const code = sourceOf(spec);
  return (
    <div className="wb-About">
      <Part title={trans.__('Launch')}>
        <Facts data={launch(row, about, spec, snapshot, trans)} />
      </Part>
      <Part title={trans.__('Search')}>
        <Facts
          data={{
            [trans.__('Goal')]: about.goal,
            [trans.__('Scheduler')]: about.search,
            [trans.__('Slots of a trial')]: about.slots
          }}
        />
        {about.space.length > 0 && <pre className="wb-Code">{about.space.join('\n')}</pre>}
      </Part>
      {error && <p className="wb-Note">{error.message}</p>}
      {snapshot && <Surroundings snapshot={snapshot} trans={trans} />}
      {code && (
        <Part title={trans.__('Code')}>
          <pre className="wb-Code">{code}</pre>
        </Part>
      )}
      <Raw data={{ experiment: row, spec, snapshot }} trans={trans} />
    </div>
  );
}

function Part({ title, children }: { title: string; children: React.ReactNode }): React.JSX.Element {
  return (
    <section aria-label={title}>
      <h3>{title}</h3>
      {children}
    </section>
  );
}

/** Missing facts are not shown: experiments of earlier versions have fewer. */
function launch(
  row: IExperiment,
  { launched }: IAbout,
  spec: Spec,
  snapshot: ISnapshot | null,
  trans: TranslationBundle
): Readonly<Record<string, unknown>> {
  const host = launched?.host ?? snapshot?.environment.host;
  const seconds = row.started && row.ended ? (Date.parse(row.ended) - Date.parse(row.started)) / 1000 : null;
  const git = launched?.git;
  return {
    [trans.__('By')]: launched?.account,
    [trans.__('On')]: host,
    [trans.__('Created')]: `${clock(row.created)} (${age(row.created, trans)})`,
    [trans.__('Took')]: seconds === null ? null : took(seconds, trans),
    [trans.__('Notebook')]: row.notebook,
    [trans.__('Typed')]: String(spec.typed ?? '').split('\n')[0],
    [trans.__('Git')]: git && [
      ...(git.commit ? [trans.__('commit %1', git.commit.slice(0, 12))] : [trans.__('no commit yet')]),
      ...(git.branch ? [trans.__('branch %1', git.branch)] : []),
      ...(git.remote ? [git.remote] : []),
      git.changed
        ? trans._n('%1 file with uncommitted changes', '%1 files with uncommitted changes', git.changed, git.changed)
        : trans.__('no uncommitted changes')
    ]
  };
}

/** The machine, the packages and the files of a snapshot. */
function Surroundings({ snapshot, trans }: { snapshot: ISnapshot; trans: TranslationBundle }): React.JSX.Element {
  const { python, system, processor, cores, memory, gpus, threads, libraries, distributions } = snapshot.environment;
  const packages = Object.entries((distributions ?? {}) as Readonly<Record<string, string>>);
  const files = snapshot.data as unknown as readonly (IDataFile & { readonly path: string })[];
  return (
    <>
      <Part title={trans.__('Environment')}>
        <Facts
          data={{
            [trans.__('Python')]: python,
            [trans.__('System')]: system,
            [trans.__('Processor')]: [processor, cores && trans.__('%1 cores', String(cores))].filter(Boolean),
            [trans.__('Memory')]: typeof memory === 'number' ? bytes(memory) : null,
            [trans.__('GPUs')]: gpus,
            [trans.__('Threads of a trial')]: threads,
            [trans.__('Libraries')]: libraries
          }}
        />
        <More title={trans.__('All packages (%1)', packages.length)} isThere={packages.length > 0}>
          <div className="wb-Packages">
            {packages.map(([name, version]) => (
              <div key={name}>
                {name} {version}
              </div>
            ))}
          </div>
        </More>
      </Part>
      {(files.length > 0 || snapshot.modules.length > 0) && (
        <Part title={trans.__('Files')}>
          <Facts
            data={{
              ...Object.fromEntries(files.map(file => [file.path, fileWords(file, trans)])),
              [trans.__('Modules')]: snapshot.modules.map(({ name, path }) => String(name ?? path))
            }}
          />
        </Part>
      )}
      {!isEmpty(snapshot.notes) && (
        <Part title={trans.__('Notes')}>
          <Value value={snapshot.notes} />
        </Part>
      )}
    </>
  );
}

/** Everything as it is stored, behind a button. */
function Raw({ data, trans }: { data: object; trans: TranslationBundle }): React.JSX.Element {
  const [isOpen, setOpen] = React.useState(false);
  return (
    <section aria-label={trans.__('Raw data')}>
      <button type="button" className="wb-Button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {isOpen ? trans.__('Hide raw data') : trans.__('Show raw data')}
      </button>
      {isOpen && <pre className="wb-Code">{JSON.stringify(data, null, 2)}</pre>}
    </section>
  );
}

function sourceOf({ program }: Spec): string | null {
  const code = (program as { source?: unknown } | undefined)?.source;
  return typeof code === 'string' ? code.trim() : null;
}
