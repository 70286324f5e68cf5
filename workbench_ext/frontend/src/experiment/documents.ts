/** The plugin that opens pages and restores them with the workspace. */

import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { MainAreaWidget, ReactWidget, WidgetTracker } from '@jupyterlab/apputils';
import { IStateDB } from '@jupyterlab/statedb';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';
import { createElement } from 'react';

import { Boundary } from '../boundary';
import { IPageContext } from './context';
import { ExperimentDocument, Place } from './document';
import { ExperimentModel } from './experiment';
import { experimentsIcon } from '../icons';
import { loadPlotly } from '../notebook/plotly';
import { ViewState } from '../state';
import { IWhere, StoreModel, refOf } from '../stores/stores';
import { IWorkbench } from '../tokens';
import { PAGES } from './views';
import { refused } from '../notices';

/** The form of an experiment's id. Anything else is a name. */
const ID = /^\d{8}-\d{6}-[a-z0-9]+$/;

/** What a page keeps with the workspace, to find its store again. */
function placeOf({ info }: StoreModel): { readonly store: string; readonly folder: string } {
  return { store: info.id, folder: info.folder };
}

function whereOf({ store, folder }: ReadonlyPartialJSONObject): IWhere {
  return {
    store: typeof store === 'string' ? store : null,
    folder: typeof folder === 'string' ? folder : null
  };
}

/** What a comparison is of. Workspaces of earlier versions have kept a pair. */
function compared({ refs, a, b }: ReadonlyPartialJSONObject): readonly string[] {
  return Array.isArray(refs) && refs.length > 1 ? refs.map(String) : [String(a), String(b)];
}

function comparisonId(store: StoreModel, refs: readonly string[]): string {
  return `workbench-compare-${store.id}-${refs.join('-')}`;
}

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
    const { api, live, trans, themes, picks, settings, stores, documents: tracker } = workbench;
    const { commands, shell } = app;
    const comparisons = new WidgetTracker<MainAreaWidget>({ namespace: 'workbench-compare' });

    const folders = new WeakMap<ExperimentDocument, ReturnType<typeof placeOf>>();

    const themeChanged = new Signal<object, void>({});
    themes?.themeChanged.connect(() => themeChanged.emit());
    const pageOf = (store: StoreModel): IPageContext => ({
      api: store.api,
      trans,
      where: stores.shown.length > 1 ? store.label : '',
      commands,
      live,
      themeChanged,
      openCompare: (...refs) => void commands.execute('workbench:compare', { refs: [...refs], ...placeOf(store) }),
      plotly: () => loadPlotly(api)
    });

    /** Name the tab of a page that may be hidden: its model fetches nothing until it is shown. */
    const name = async (document: ExperimentDocument, store: StoreModel) => {
      const { ref } = document.experiment;
      const listed = stores.row({ store: store.id, experiment: ref });
      const row = listed ?? (await stores.named(store, ref).catch(() => null));
      if (row && !document.experiment.row && !document.isDisposed) {
        document.retitle(row);
      }
    };

    const open = async (ref: string, where: IWhere, tab: string, trial: number | null) => {
      const store = await stores.find(ref, where);
      const id = ID.test(ref) ? ref : (await stores.named(store, ref)).id;
      let document = tracker.find(({ experiment }) => experiment.ref === id && experiment.store === store.id);
      if (!document) {
        const state = await new ViewState(database, `workbench-ext:${id}`).load();
        const place = new Place(tab || state.get('tab', settings.value.defaultTab), trial);
        const experiment = new ExperimentModel(store.api, id, live);
        const made = new ExperimentDocument(pageOf(store), experiment, state, place);
        folders.set(made, placeOf(store));
        place.changed.connect(() => {
          state.set('tab', place.tab);
          void tracker.save(made);
        });
        await tracker.add(made);
        shell.add(made, 'main', { type: 'Workbench' });
        document = made;
        void name(made, store);
      } else if (trial !== null) {
        document.place.showTrial(trial);
      } else if (tab) {
        document.place.showTab(tab);
      }
      shell.activateById(document.id);
      return document;
    };

    const opened = async (args: ReadonlyPartialJSONObject) => {
      try {
        const trial = typeof args.trial === 'number' ? args.trial : null;
        return await open(String(args.experiment), whereOf(args), String(args.tab ?? ''), trial);
      } catch (error) {
        refused(error);
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
        for (const key of picks.picked) {
          await opened({ ...args, ...refOf(key) });
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
        const refs = compared(args);
        const store = await stores.find(refs[0]!.split('/')[0]!, whereOf(args)).catch(refused);
        if (!store) {
          return null;
        }
        const id = comparisonId(store, refs);
        let widget = comparisons.find(found => found.id === id);
        if (!widget && PAGES.compare && PAGES.compareMany) {
          const context = pageOf(store);
          const [a, b] = [refs[0]!, refs[1]!];
          const name = (page: MainAreaWidget, refs: readonly string[]) => {
            page.id = comparisonId(store, refs);
            page.title.label =
              refs.length === 2
                ? trans.__('%1 and %2', refs[0], refs[1])
                : trans.__('%1 and %2 others', refs[0], refs.length - 1);
            shownRefs.set(page, { refs: [...refs], ...placeOf(store) });
          };
          const onRefs = (refs: readonly string[]) => {
            name(made, refs);
            void comparisons.save(made);
          };
          const view =
            refs.length === 2
              ? createElement(PAGES.compare, { context, a, b })
              : createElement(PAGES.compareMany, { context, refs, onRefs });
          const content = ReactWidget.create(
            createElement(Boundary, { what: trans.__('The comparison'), trans, children: view })
          );
          const made = new MainAreaWidget({ content });
          made.addClass('wb-Document');
          made.toolbar.hide();
          made.title.icon = experimentsIcon;
          made.title.closable = true;
          name(made, refs);
          widget = made;
          await comparisons.add(widget);
          shell.add(widget, 'main', { type: 'Workbench' });
        }
        shell.activateById(id);
        return widget ?? null;
      }
    });
    const shownRefs = new WeakMap<MainAreaWidget, ReadonlyPartialJSONObject>();

    void restorer?.restore(tracker, {
      command: 'workbench:open',
      args: document => ({
        experiment: document.experiment.ref,
        ...folders.get(document),
        tab: document.place.tab,
        trial: document.place.trial
      }),
      name: ({ experiment }) => experiment.key
    });
    void restorer?.restore(comparisons, {
      command: 'workbench:compare',
      args: widget => ({ ...shownRefs.get(widget) }),
      name: widget => widget.id
    });
  }
};
