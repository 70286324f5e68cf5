/** The plugin that adds our commands to the palette and to the menus of rows and tabs. */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';

import { IExperiment, IRef } from '../server/api';
import { changing } from './changing';
import { ITargets, addCommands } from './commands';
import { addGoingOn } from './goingon';
import { addTrialCommands } from './trials';
import { FROM_SIDEBAR, GROUPS } from './groups';
import { refOf } from '../stores/stores';
import { IWorkbench } from '../tokens';

/** Menus that act on the tab on which they were opened, which may not be the shown one. */
const FROM_TAB = { from: 'tab' };

export const menus: JupyterFrontEndPlugin<void> = {
  id: 'workbench-ext:commands',
  description: 'What can be done with experiments, in the palette and in menus',
  autoStart: true,
  requires: [IWorkbench],
  optional: [ICommandPalette],
  activate: (app: JupyterFrontEnd, workbench: IWorkbench, palette: ICommandPalette | null) => {
    const { stores, documents, picks, requests, trans } = workbench;
    const shownDocument = () => documents.find(document => document === app.shell.currentWidget) ?? null;
    const tabbed = () => {
      const tab = app.contextMenuHitTest(node => 'id' in node.dataset);
      return documents.find(({ id }) => id === tab?.dataset.id) ?? shownDocument();
    };
    const opened = (ref: IRef) =>
      documents.find(({ experiment }) => experiment.ref === ref.experiment && experiment.store === ref.store);
    const row = (ref: IRef): IExperiment | undefined =>
      // The page of an experiment is followed also while the list is not.
      (opened(ref)?.isVisible ? opened(ref)?.experiment.row : null) ??
      stores.row(ref) ??
      opened(ref)?.experiment.row ??
      undefined;
    const targets: ITargets = {
      of: args => {
        if (typeof args.experiment === 'string') {
          const store = typeof args.store === 'string' ? args.store : stores.current?.id;
          return store === undefined ? [] : [{ experiment: args.experiment, store }];
        }
        const shown = args.from === 'sidebar' ? null : args.from === 'tab' ? tabbed() : shownDocument();
        return shown ? [shown.experiment.named] : [...picks.picked].map(refOf);
      },
      row,
      trial: ({ store, id }, number) => opened({ store, experiment: id })?.experiment.trials.get(number),
      store: args => {
        const named = typeof args.store === 'string' ? args.store : targets.of(args)[0]?.store;
        return stores.get(named ?? '') ?? stores.current;
      },
      all: store => stores.get(store)?.experiments.experiments ?? []
    };
    const registry = changing(app.commands, args => targets.store(args)?.info.published ?? false);
    addCommands(registry, targets, requests, trans);
    addGoingOn(registry, targets, requests, trans);
    addTrialCommands(registry, targets, requests, trans);

    const category = trans.__('Workbench');
    GROUPS.forEach((commands, group) => {
      for (const command of commands) {
        palette?.addItem({ command, category });
        for (const [selector, args] of [
          ['.wb-Experiment[data-experiment]', FROM_SIDEBAR],
          ['.lm-TabBar-tab[data-type="workbench-experiment"]', FROM_TAB]
        ] as const) {
          app.contextMenu.addItem({ command, selector, args, rank: group * 10 });
        }
      }
      if (group > 0) {
        app.contextMenu.addItem({
          type: 'separator',
          selector: '.wb-Experiment[data-experiment]',
          rank: group * 10 - 1
        });
      }
    });
    for (const command of ['workbench:show-experiments', 'workbench:start-engine']) {
      palette?.addItem({ command, category });
    }
    // A command's place in a menu is grey or black by what is known now.
    const again = () => app.commands.notifyCommandChanged();
    stores.changed.connect(again);
    stores.experimentsChanged.connect(again);
    picks.changed.connect(again);
    app.shell.currentChanged?.connect(again);
  }
};
