/** What Workbench adds to JupyterLab. Law: only wires things together. */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IThemeManager, WidgetTracker } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { Api } from './server/api';
import { ExperimentDocument } from './experiment/document';
import { documents } from './experiment/documents';
import { keepFigures } from './notebook/figure';
import { showViews } from './notebook/viewed';
import { forks } from './notebook/fork';
import { Live } from './server/live';
import { menus } from './commands/menus';
import { notebooks } from './notebook/notebooks';
import { notifications } from './stores/notify';
import { queue } from './queue/plugin';
import { Requests } from './server/requests';
import { Settings } from './settings';
import { Picks } from './sidebar/picks';
import { sidebar } from './sidebar/plugin';
import { Stores } from './stores/stores';
import { IWorkbench } from './tokens';
import { toNotebook } from './notebook/dataframe';
import { trialCommands } from './trial/menu';
import { refused } from './notices';
import { notices } from './notices/strip';

/** The plugin whose settings are in schema/plugin.json. */
const SETTINGS = 'workbench-ext:plugin';

const workbench: JupyterFrontEndPlugin<IWorkbench> = {
  id: SETTINGS,
  description: 'The connection to the server that all parts of Workbench share',
  autoStart: true,
  provides: IWorkbench,
  optional: [ITranslator, IThemeManager, ISettingRegistry],
  activate: (
    app: JupyterFrontEnd,
    translator: ITranslator | null,
    themes: IThemeManager | null,
    registry: ISettingRegistry | null
  ): IWorkbench => {
    const api = new Api(app.serviceManager.serverSettings);
    const live = new Live(app.serviceManager.events.stream);
    const trans = (translator ?? nullTranslator).load('workbench');
    const stores = new Stores(api, live, trans);
    const settings = new Settings();
    settings.changed.connect(() => {
      live.interval = 1000 * settings.value.pollInterval;
    });
    // Not awaited: unreadable settings must not prevent the rest from starting.
    if (registry) {
      settings.follow(registry, SETTINGS).catch(refused);
    }
    return {
      api,
      live,
      trans,
      themes,
      stores,
      settings,
      picks: new Picks(),
      requests: new Requests(stores, settings, trans),
      documents: new WidgetTracker<ExperimentDocument>({ namespace: 'workbench' })
    };
  }
};

const figures: JupyterFrontEndPlugin<void> = {
  id: 'workbench-ext:figures',
  description: 'What a cell shows of its experiment',
  autoStart: true,
  optional: [INotebookTracker, ITranslator],
  activate: (app: JupyterFrontEnd, notebooks: INotebookTracker | null, translator: ITranslator | null) => {
    keepFigures(app.shell);
    if (notebooks) {
      showViews(notebooks, (translator ?? nullTranslator).load('workbench'));
    }
  }
};

export default [
  workbench,
  sidebar,
  documents,
  menus,
  figures,
  notebooks,
  notices,
  notifications,
  trialCommands,
  toNotebook,
  forks,
  queue
];
