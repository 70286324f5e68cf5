/** The sidebar. Law: never fetches; its models do not fetch while it is hidden. */

import { ReactWidget } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { Message } from '@lumino/messaging';
import { Signal } from '@lumino/signaling';
import * as React from 'react';

import { IRef } from '../server/api';
import { Boundary } from '../boundary';
import { useSignal } from '../hooks';
import { ViewState } from '../state';
import { StoreModel, Stores } from '../stores/stores';
import { AdoptBanner } from './adopt';
import { SORTS, Sort } from './arrange';
import { ClusterSection } from './cluster';
import { ExperimentList } from './list';
import { Picks } from './picks';
import { StoreSection } from './storage';

/** The parts that the user folded (true) or opened (false), by name. */
type Folded = Readonly<Record<string, boolean>>;

export interface ISidebar {
  readonly stores: Stores;
  readonly picks: Picks;
  /** Which parts are folded, kept with the workspace. */
  readonly state: ViewState;
  readonly trans: TranslationBundle;
  open(ref: IRef): void;
  /** Run one of our commands: on the selection, or on a store. */
  act(command: string, store?: string): void;
  /** Open the menu of the selection below a button. */
  menu(button: HTMLElement): void;
  /** Ask whether to adopt a store. */
  adopt(store: StoreModel): void;
}

export class ExperimentsPanel extends ReactWidget {
  constructor(private _sidebar: ISidebar) {
    super();
    this.id = 'workbench-experiments';
    this.addClass('wb-Experiments');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', _sidebar.trans.__('Experiments'));
    this.title.caption = _sidebar.trans.__('Workbench experiments');
  }

  protected onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._watch(true);
  }

  protected onBeforeHide(message: Message): void {
    this._watch(false);
    super.onBeforeHide(message);
  }

  protected onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._watch(this.isVisible);
  }

  protected onBeforeDetach(message: Message): void {
    this._watch(false);
    super.onBeforeDetach(message);
  }

  protected render(): React.JSX.Element {
    return <Sidebar {...this._sidebar} shown={() => this._shown} shownChanged={this._changed} />;
  }

  private _watch(shown: boolean): void {
    this._shown = shown;
    this._sidebar.stores.watched = shown;
    this._changed.emit();
  }

  private _changed = new Signal<this, void>(this);
  private _shown = false;
}

function Sidebar(
  props: ISidebar & { shown: () => boolean; shownChanged: Signal<ExperimentsPanel, void> }
): React.JSX.Element {
  const { stores, picks, state, trans, shown, shownChanged } = props;
  useSignal(stores.changed);
  useSignal(stores.experimentsChanged);
  useSignal(shownChanged);
  const [folded, setFolded] = React.useState<Folded>({});
  const [sort, setSort] = React.useState<Sort>('newest');
  // Loaded after the start: the workspace is restored only when all plugins are active.
  React.useEffect(() => {
    void state.load().then(() => {
      setFolded(known(state.get<string[] | Folded>('folded', {})));
      setSort(SORTS.find(one => one === state.get('sort', 'newest')) ?? 'newest');
    });
  }, [state]);
  const fold = (name: string, isFolded: boolean) => {
    const next = { ...folded, [name]: isFolded };
    setFolded(next);
    state.set('folded', next);
  };
  const all = stores.shown;
  // The one beside the active notebook is open at first; the user's choices are kept.
  const isOpen = (store: StoreModel) => !(folded[store.id] ?? store !== all[0]);
  const open = all.length > 1 ? all.filter(isOpen) : all;
  const section = (kind: string, store: StoreModel) => {
    // The default store's has its old name, under which earlier versions kept it.
    const name = store === stores.all?.[0] ? kind : `${kind} ${store.id}`;
    return {
      key: name,
      trans,
      where: all.length > 1 ? store.label : null,
      open: !folded[name],
      shown: shown() && !folded[name],
      onToggle: (isOpened: boolean) => fold(name, !isOpened)
    };
  };
  return (
    <div className="wb-Sidebar">
      <h2 className="wb-Experiments-title">{trans.__('Experiments')}</h2>
      {open.map(store => (
        <AdoptBanner key={store.id} health={store.experiments.health} trans={trans} adopt={() => props.adopt(store)} />
      ))}
      <Boundary what={trans.__('The list of experiments')} trans={trans}>
        <ExperimentList
          stores={stores}
          picks={picks}
          trans={trans}
          shown={shown()}
          isOpen={isOpen}
          onToggle={(store, isOpened) => fold(store.id, !isOpened)}
          sort={sort}
          onSort={next => {
            setSort(next);
            state.set('sort', next);
          }}
          isUnfolded={(store, name) => folded[`${store.id}/${name}`] === false}
          onUnfold={(store, name, isOpened) => fold(`${store.id}/${name}`, !isOpened)}
          open={props.open}
          act={props.act}
          menu={props.menu}
        />
      </Boundary>
      {open.map(store => {
        const { key, ...common } = section('cluster', store);
        return (
          <Boundary key={key} what={trans.__('The cluster')} trans={trans}>
            <ClusterSection
              cluster={store.cluster}
              health={store.experiments.health}
              startEngine={() => props.act('workbench:start-engine', store.id)}
              showQueue={() => props.act('workbench:queue')}
              {...common}
            />
          </Boundary>
        );
      })}
      {open.map(store => {
        const { key, ...common } = section('store', store);
        return (
          <Boundary key={key} what={trans.__('The store')} trans={trans}>
            <StoreSection store={store.disk} cleanUp={() => props.act('workbench:clean-up', store.id)} {...common} />
          </Boundary>
        );
      })}
    </div>
  );
}

/** The state kept with the workspace. Earlier versions kept the names of folded parts. */
function known(kept: readonly string[] | Folded): Folded {
  return Array.isArray(kept) ? Object.fromEntries(kept.map((name: string) => [name, true])) : (kept as Folded);
}
