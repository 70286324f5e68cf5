/** What Workbench adds to JupyterLab. Law: only wires things together. */

import {
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { LabIcon } from '@jupyterlab/ui-components';

import { keepFigures } from './figure';
import { ExperimentsModel } from './model';
import { ExperimentsPanel } from './panel';

/** A ladder of rungs: few of many go on. */
const icon = new LabIcon({
  name: 'workbench:experiments',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 16 16">
    <g class="jp-icon3" fill="#616161">
      <rect x="2" y="12" width="12" height="2" rx="1"/>
      <rect x="4" y="7" width="8" height="2" rx="1"/>
      <rect x="6" y="2" width="4" height="2" rx="1"/>
    </g>
  </svg>`
});

const experiments: JupyterFrontEndPlugin<void> = {
  id: 'workbench-ext:experiments',
  description: 'The sidebar that lists experiments',
  autoStart: true,
  optional: [ILayoutRestorer, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    restorer: ILayoutRestorer | null,
    translator: ITranslator | null
  ) => {
    const model = new ExperimentsModel(app.serviceManager.serverSettings);
    const panel = new ExperimentsPanel(model, translator ?? undefined);
    const trans = (translator ?? nullTranslator).load('workbench');
    panel.title.icon = icon;
    app.shell.add(panel, 'left', { rank: 250, type: 'Workbench' });
    restorer?.add(panel, panel.id);
    app.commands.addCommand('workbench:show-experiments', {
      label: trans.__('Show Workbench Experiments'),
      execute: () => app.shell.activateById(panel.id)
    });
  }
};

const figures: JupyterFrontEndPlugin<void> = {
  id: 'workbench-ext:figures',
  description: 'The figure that stays when a live view on a reloaded page has ended',
  autoStart: true,
  activate: (app: JupyterFrontEnd) => keepFigures(app.shell)
};

export default [experiments, figures];
