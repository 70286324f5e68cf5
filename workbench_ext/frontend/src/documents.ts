/** The plugin that opens pages and restores them with the workspace. */

import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import {
  MainAreaWidget,
  Notification,
  ReactWidget,
  WidgetTracker
} from '@jupyterlab/apputils';
import { IStateDB } from '@jupyterlab/statedb';
import { Signal } from '@lumino/signaling';
import { createElement } from 'react';

import { IExperimentAnswer, experimentPath } from './api';
import { IPageContext } from './context';
import { ExperimentDocument, Place } from './document';
import { ExperimentModel } from './experiment';
import { experimentsIcon } from './icons';
import { loadPlotly } from './plotly';
import { ViewState } from './state';
import { IWorkbench } from './tokens';
import { PAGES } from './views';

/** An experiment's id, as the store makes them. Anything else is what a person calls it. */
const ID = /^\d{8}-\d{6}-[a-z0-9]+$/;

export const documents: JupyterFrontEndPlugin<void> = {
  id: 'workbench-ext:documents',
  description: 'The pages of experiments and of comparisons',
  autoStart: true,
  requires: [IWorkbench],
  optional: [ILayoutRestorer, IStateDB],
  activate: (
    app: JupyterFrontEnd,
    workbench: IWorkbench,
    restorer: ILayoutRestorer | null,
    database: IStateDB | null
  ) => {
    const { api, live, trans, themes, picks, settings, documents: tracker } = workbench;
    const { commands, shell } = app;
    const comparisons = new WidgetTracker<MainAreaWidget>({ namespace: 'workbench-compare' });

    const themeChanged = new Signal<object, void>({});
    themes?.themeChanged.connect(() => themeChanged.emit());
    const page: IPageContext = {
      api,
      trans,
      commands,
      themeChanged,
      openCompare: (a, b) => void commands.execute('workbench:compare', { a, b }),
      plotly: () => loadPlotly(api)
    };

    const open = async (ref: string, tab: string, trial: number | null) => {
      const id = ID.test(ref)
        ? ref
        : (await api.get<IExperimentAnswer>(experimentPath(ref))).experiment.id;
      let document = tracker.find(found => found.experiment.ref === id);
      if (!document) {
        const state = await new ViewState(database, `workbench-ext:${id}`).load();
        const place = new Place(tab || state.get('tab', settings.value.defaultTab), trial);
        const made = new ExperimentDocument(page, new ExperimentModel(api, id, live), state, place);
        place.changed.connect(() => {
          state.set('tab', place.tab);
          void tracker.save(made);
        });
        await tracker.add(made);
        shell.add(made, 'main', { type: 'Workbench' });
        document = made;
      } else if (trial !== null) {
        document.place.showTrial(trial);
      } else if (tab) {
        document.place.showTab(tab);
      }
      shell.activateById(document.id);
      return document;
    };

    const opened = async (args: { experiment?: unknown; tab?: unknown; trial?: unknown }) => {
      try {
        const trial = typeof args.trial === 'number' ? args.trial : null;
        return await open(String(args.experiment), String(args.tab ?? ''), trial);
      } catch (error) {
        Notification.error(error instanceof Error ? error.message : String(error));
        return null;
      }
    };
    commands.addCommand('workbench:open', {
      label: trans.__('Open'),
      isEnabled: args => typeof args.experiment === 'string' || picks.picked.size > 0,
      execute: async args => {
        if (typeof args.experiment === 'string') {
          return opened(args);
        }
        for (const experiment of picks.picked) {
          await opened({ ...args, experiment });
        }
        return null;
      }
    });
    commands.addCommand('workbench:open-trial', {
      label: trans.__('Open Trial'),
      execute: opened
    });

    commands.addCommand('workbench:compare', {
      label: trans.__('Compare'),
      isEnabled: () => PAGES.compare !== null,
      execute: async args => {
        const [a, b] = [String(args.a), String(args.b)];
        const id = `workbench-compare-${a}-${b}`;
        let widget = comparisons.find(found => found.id === id);
        if (!widget && PAGES.compare) {
          const content = ReactWidget.create(createElement(PAGES.compare, { context: page, a, b }));
          widget = new MainAreaWidget({ content });
          widget.id = id;
          widget.addClass('wb-Document');
          widget.toolbar.hide();
          widget.title.icon = experimentsIcon;
          widget.title.label = trans.__('%1 and %2', a, b);
          widget.title.closable = true;
          shownPairs.set(widget, { a, b });
          await comparisons.add(widget);
          shell.add(widget, 'main', { type: 'Workbench' });
        }
        shell.activateById(id);
        return widget ?? null;
      }
    });
    const shownPairs = new WeakMap<MainAreaWidget, { a: string; b: string }>();

    void restorer?.restore(tracker, {
      command: 'workbench:open',
      args: ({ experiment, place }) => ({
        experiment: experiment.ref,
        tab: place.tab,
        trial: place.trial
      }),
      name: ({ experiment }) => experiment.ref
    });
    void restorer?.restore(comparisons, {
      command: 'workbench:compare',
      args: widget => ({ ...shownPairs.get(widget) }),
      name: widget => widget.id
    });
  }
};
