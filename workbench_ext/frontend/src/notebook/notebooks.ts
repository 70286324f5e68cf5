/** Links between a cell and its experiment, and recording the document when a train cell is executed. */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { Cell } from '@jupyterlab/cells';
import { PageConfig } from '@jupyterlab/coreutils';
import { INotebookTracker, Notebook, NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { IDocument, IExperiment, IRef, ISnapshot, experimentPath } from '../server/api';
import { SnapshotDrive, Which } from './drive';
import { experimentsIcon } from '../icons';
import { contentsPath } from './paths';
import { refOf } from '../stores/stores';
import { IWorkbench } from '../tokens';
import { refused, tell } from '../notices';

/** A cell that starts an experiment, after comments and empty lines. */
const TRAIN = /^(?:\s*(?:#[^\n]*)?\n)*%%train\b/;

export const notebooks: JupyterFrontEndPlugin<void> = {
  id: 'workbench-ext:notebooks',
  description: 'Links between cells and experiments, and notebooks as they were',
  autoStart: true,
  requires: [IWorkbench],
  optional: [INotebookTracker, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    workbench: IWorkbench,
    tracker: INotebookTracker | null,
    palette: ICommandPalette | null
  ) => {
    addLinks(app, workbench, tracker);
    addAsItWas(app, workbench);
    if (tracker) {
      followNotebook(app, workbench, tracker);
      sendDocuments(workbench, tracker);
      palette?.addItem({
        command: 'workbench:open-from-cell',
        category: workbench.trans.__('Workbench')
      });
    }
  }
};

function addLinks(app: JupyterFrontEnd, workbench: IWorkbench, tracker: INotebookTracker | null): void {
  const { commands, shell } = app;
  const { api, trans } = workbench;
  const pathOf = (args: ReadonlyPartialJSONObject): string | null => {
    const row = rowOf(workbench, meant(workbench, args));
    return row?.notebook ? contentsPath(row.notebook, PageConfig.getOption('serverRoot')) : null;
  };

  commands.addCommand('workbench:go-to-cell', {
    label: trans.__('Show Its Cell'),
    caption: trans.__('Open the notebook at the cell that started this experiment'),
    isEnabled: args => pathOf(args) !== null,
    isVisible: args => pathOf(args) !== null,
    execute: async args => {
      const { store, experiment } = meant(workbench, args)!;
      try {
        const { cells, train_cell } = await api.of(store).get<ISnapshot>(experimentPath(experiment, 'snapshot'));
        const started = cells.find(({ n }) => n === train_cell);
        const panel: unknown = await commands.execute('docmanager:open', {
          path: pathOf(args),
          factory: 'Notebook'
        });
        if (!(panel instanceof NotebookPanel)) {
          return;
        }
        shell.activateById(panel.id);
        await panel.revealed;
        const at = cellAt(panel.content, started?.cell_id ?? null, started?.source ?? null);
        if (at < 0) {
          tell('warning', trans.__('The cell that started this experiment is no longer in the notebook.'));
          return;
        }
        panel.content.deselectAll();
        panel.content.activeCellIndex = at;
        await panel.content.scrollToItem(at, 'start');
      } catch (error) {
        refused(error);
      }
    }
  });

  const here = () => experimentOf(tracker?.activeCell ?? null);
  commands.addCommand('workbench:open-from-cell', {
    label: trans.__('Open Its Experiment'),
    caption: trans.__('Open the page of the experiment that this cell shows'),
    icon: experimentsIcon,
    isVisible: () => here() !== null,
    isEnabled: () => here() !== null,
    execute: () => commands.execute('workbench:open', { experiment: here() })
  });
  tracker?.activeCellChanged.connect(() => commands.notifyCommandChanged('workbench:open-from-cell'));

  // A live view has its own button, and shows it if there is a listener.
  document.body.dataset.workbenchPages = 'true';
  document.addEventListener('workbench:open', event => {
    const { experiment } = (event as CustomEvent<{ experiment: string }>).detail;
    void commands.execute('workbench:open', { experiment });
  });
}

/** The experiment whose live view or figure is among a cell's outputs. */
function experimentOf(cell: Cell | null): string | null {
  const outputs = (cell?.model.toJSON() as { outputs?: unknown } | undefined)?.outputs;
  for (const output of Array.isArray(outputs) ? outputs : []) {
    const { metadata } = output as { metadata?: ReadonlyPartialJSONObject };
    const { experiment } = (metadata?.workbench ?? {}) as ReadonlyPartialJSONObject;
    if (typeof experiment === 'string') {
      return experiment;
    }
  }
  return null;
}

/** The index of a cell: by its id, or else by its text. -1 if it is gone. */
function cellAt({ widgets }: Notebook, id: string | null, source: string | null): number {
  const byId = widgets.findIndex(({ model }) => id !== null && model.id === id);
  return byId >= 0 ? byId : widgets.findIndex(({ model }) => source !== null && model.sharedModel.source === source);
}

/** The experiment of a command's arguments. Without a store, it is in the default one. */
function meant({ stores }: IWorkbench, args: ReadonlyPartialJSONObject): IRef | null {
  const store = typeof args.store === 'string' ? args.store : stores.current?.id;
  return typeof args.experiment === 'string' && store !== undefined ? { experiment: args.experiment, store } : null;
}

function rowOf({ stores, documents }: IWorkbench, ref: IRef | null): IExperiment | null {
  if (ref === null) {
    return null;
  }
  const page = documents.find(({ experiment }) => experiment.ref === ref.experiment && experiment.store === ref.store);
  return stores.row(ref) ?? page?.experiment.row ?? null;
}

/** The store beside the active notebook is first in the sidebar, and links search it first. */
function followNotebook(app: JupyterFrontEnd, { stores }: IWorkbench, tracker: INotebookTracker): void {
  const { contents } = app.serviceManager;
  const tell = () => {
    const path = tracker.currentWidget?.context.path;
    // Files of other drives have no store beside them; with real-time collaboration the files are on a drive, too.
    const isFile = path !== undefined && ['', 'RTC'].includes(contents.driveName(path));
    stores.notebook = isFile ? path : null;
  };
  tracker.currentChanged.connect((_, panel) => {
    tell();
    panel?.context.pathChanged.connect(tell);
  });
  tell();
}

function addAsItWas(app: JupyterFrontEnd, workbench: IWorkbench): void {
  const { api, documents, picks, trans } = workbench;
  const { commands, serviceManager, shell } = app;
  const drive = new SnapshotDrive(api);
  serviceManager.contents.addDrive(drive);
  const target = (args: ReadonlyPartialJSONObject): IRef | null => {
    if (typeof args.experiment === 'string') {
      return meant(workbench, args);
    }
    const shown = args.from === 'sidebar' ? undefined : documents.find(page => page === shell.currentWidget);
    return shown?.experiment.named ?? (picks.picked.size === 1 ? refOf([...picks.picked][0]!) : null);
  };
  commands.addCommand('workbench:open-notebook', {
    label: trans.__('Open Notebook as It Was'),
    caption: trans.__('The notebook that started this experiment, read-only'),
    isEnabled: args => target(args) !== null,
    execute: async args => {
      const ref = target(args)!;
      try {
        const snapshot = await api.of(ref.store).get<ISnapshot>(experimentPath(ref.experiment, 'snapshot'));
        // The most complete version: the open document, the saved file, or at least the executed cells.
        const which: Which = snapshot.document ? 'document' : snapshot.notebook ? 'file' : 'executed';
        const words: Readonly<Record<Which, string>> = {
          document: snapshot.document?.unsaved ? trans.__('as it was, with unsaved edits') : trans.__('as it was'),
          file: trans.__('as it was saved'),
          executed: trans.__('cells as executed')
        };
        const label = rowOf(workbench, ref)?.label ?? ref.experiment;
        await commands.execute('docmanager:open', {
          path: drive.path(ref, which, `${label} (${words[which]})`),
          factory: 'Notebook',
          // It is for reading; the user may still choose a kernel.
          kernelPreference: { shouldStart: false, canStart: true, autoStartDefault: false }
        });
      } catch (error) {
        refused(error);
      }
    }
  });
}

/** When a train cell is executed, the snapshot gets this page's document, including unsaved edits. */
function sendDocuments({ api, stores }: IWorkbench, tracker: INotebookTracker): void {
  NotebookActions.executionScheduled.connect((_, { notebook, cell }) => {
    const source = cell.model.sharedModel.source;
    const panel = tracker.find(found => found.content === notebook);
    if (cell.model.type !== 'code' || !TRAIN.test(source) || !panel?.model) {
      return;
    }
    const content = panel.model.toJSON() as unknown as {
      cells: { outputs?: unknown; execution_count?: unknown }[];
    };
    const body: IDocument = {
      path: panel.context.path,
      cell_id: cell.model.id,
      source,
      // Outputs may be large, and are not needed.
      content: { ...content, cells: content.cells.map(bare) },
      unsaved: panel.model.dirty
    };
    // The snapshot is complete without it; the server logs the error.
    api
      .post('documents', body)
      // The store may be created for it.
      .then(() => stores.refresh())
      .catch(() => undefined);
  });
}

function bare<T extends { outputs?: unknown }>(cell: T): T {
  return 'outputs' in cell ? { ...cell, outputs: [], execution_count: null } : cell;
}
