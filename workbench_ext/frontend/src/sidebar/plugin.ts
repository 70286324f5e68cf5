/** The plugin that puts the sidebar in its place. */

import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { showErrorMessage } from '@jupyterlab/apputils';
import { IStateDB } from '@jupyterlab/statedb';

import { ICluster, IStore } from '../api';
import { experimentsIcon } from '../icons';
import { Followed } from '../resources';
import { ViewState } from '../state';
import { IWorkbench } from '../tokens';
import { adoptStore } from './adopt';
import { ExperimentsPanel } from './panel';

/** Milliseconds between two questions. Counting bytes on a disk is not free. */
const CLUSTER_INTERVAL = 2000;
const STORE_INTERVAL = 20000;

export const sidebar: JupyterFrontEndPlugin<void> = {
  id: 'workbench-ext:experiments',
  description: 'The sidebar that lists experiments, the cluster and the store',
  autoStart: true,
  requires: [IWorkbench],
  optional: [ILayoutRestorer, IStateDB],
  activate: (
    app: JupyterFrontEnd,
    { api, experiments, picks, trans }: IWorkbench,
    restorer: ILayoutRestorer | null,
    database: IStateDB | null
  ) => {
    const panel = new ExperimentsPanel({
      model: experiments,
      picks,
      cluster: new Followed<ICluster>(api, 'cluster', CLUSTER_INTERVAL),
      store: new Followed<IStore>(api, 'store', STORE_INTERVAL),
      state: new ViewState(database, 'workbench-ext:sidebar'),
      trans,
      open: experiment => void app.commands.execute('workbench:open', { experiment }),
      act: command => void app.commands.execute(command, { from: 'sidebar' }),
      startEngine: () => void app.commands.execute('workbench:start-engine'),
      adopt: () =>
        void adoptStore(api, trans)
          .catch((error: unknown) => showErrorMessage(trans.__('The store was not adopted'), String(error)))
          .then(() => experiments.refresh())
    });
    panel.title.icon = experimentsIcon;
    app.shell.add(panel, 'left', { rank: 250, type: 'Workbench' });
    restorer?.add(panel, panel.id);
    app.commands.addCommand('workbench:show-experiments', {
      label: trans.__('Show Workbench Experiments'),
      execute: () => app.shell.activateById(panel.id)
    });
  }
};
