/** The plugin that puts the sidebar in its place. */

import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { showErrorMessage } from '@jupyterlab/apputils';
import { IStateDB } from '@jupyterlab/statedb';

import { FROM_SIDEBAR, openExperimentMenu } from '../commands/groups';
import { experimentsIcon } from '../icons';
import { ViewState } from '../state';
import { keyOf } from '../stores/stores';
import { IWorkbench } from '../tokens';
import { adoptStore } from './adopt';
import { ExperimentsPanel } from './panel';

export const sidebar: JupyterFrontEndPlugin<void> = {
  id: 'workbench-ext:experiments',
  description: 'The sidebar that lists experiments, clusters and stores',
  autoStart: true,
  requires: [IWorkbench],
  optional: [ILayoutRestorer, IStateDB],
  activate: (
    app: JupyterFrontEnd,
    { stores, picks, documents, trans }: IWorkbench,
    restorer: ILayoutRestorer | null,
    database: IStateDB | null
  ) => {
    const panel = new ExperimentsPanel({
      stores,
      picks,
      state: new ViewState(database, 'workbench-ext:sidebar'),
      trans,
      open: ref => void app.commands.execute('workbench:open', { ...ref }),
      act: (command, store) => void app.commands.execute(command, { from: 'sidebar', ...(store && { store }) }),
      menu: button => openExperimentMenu(app.commands, FROM_SIDEBAR, button),
      adopt: ({ api, experiments }) =>
        void adoptStore(api, trans)
          .catch((error: unknown) => showErrorMessage(trans.__('The store was not adopted'), String(error)))
          .then(() => Promise.all([experiments.refresh(), stores.refresh()]))
    });
    panel.title.icon = experimentsIcon;
    app.shell.add(panel, 'left', { rank: 250, type: 'Workbench' });
    restorer?.add(panel, panel.id);
    // The selection follows the shown page. Several that are picked stay, while their pages are opened one by one.
    app.shell.currentChanged?.connect(() => {
      const shown = documents.find(document => document === app.shell.currentWidget);
      if (shown && !picks.picked.has(keyOf(shown.experiment.named))) {
        picks.pick(keyOf(shown.experiment.named));
      }
    });
    app.commands.addCommand('workbench:show-experiments', {
      label: trans.__('Show Workbench Experiments'),
      execute: () => app.shell.activateById(panel.id)
    });
  }
};
