/** The sidebar. Law: never fetches; asks for nothing while it is hidden. */

import { ReactWidget } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { Message } from '@lumino/messaging';
import { Signal } from '@lumino/signaling';
import * as React from 'react';

import { ICluster, IStore } from '../api';
import { ExperimentsModel } from '../experiments';
import { useSignal } from '../hooks';
import { Followed } from '../resources';
import { ViewState } from '../state';
import { AdoptBanner } from './adopt';
import { ClusterSection } from './cluster';
import { ExperimentList } from './list';
import { Picks } from './picks';
import { StoreSection } from './storage';

/** What is folded at first. */
const FOLDED: string[] = [];

export interface ISidebar {
  readonly model: ExperimentsModel;
  readonly picks: Picks;
  readonly cluster: Followed<ICluster>;
  readonly store: Followed<IStore>;
  /** Which parts are folded, kept with the workspace. */
  readonly state: ViewState;
  readonly trans: TranslationBundle;
  open(experiment: string): void;
  act(command: string): void;
  startEngine(): void;
  adopt(): void;
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
    this._sidebar.model.watched = shown;
    this._changed.emit();
  }

  private _changed = new Signal<this, void>(this);
  private _shown = false;
}

function Sidebar(
  props: ISidebar & { shown: () => boolean; shownChanged: Signal<ExperimentsPanel, void> }
): React.JSX.Element {
  const { model, picks, cluster, store, state, trans, shown, shownChanged } = props;
  useSignal(model.changed);
  useSignal(shownChanged);
  const [folded, setFolded] = React.useState(FOLDED);
  // Loaded after the start: the workspace is restored only when all plugins are there.
  React.useEffect(() => {
    void state.load().then(() => setFolded(state.get<string[]>('folded', FOLDED)));
  }, [state]);
  const section = (name: string) => ({
    open: !folded.includes(name),
    shown: shown() && !folded.includes(name),
    onToggle: (open: boolean) => {
      const next = open ? folded.filter(other => other !== name) : [...folded, name];
      setFolded(next);
      state.set('folded', [...next]);
    }
  });
  return (
    <div className="wb-Sidebar">
      <h2 className="wb-Experiments-title">{trans.__('Experiments')}</h2>
      <AdoptBanner health={model.health} trans={trans} adopt={props.adopt} />
      <ExperimentList
        model={model}
        picks={picks}
        trans={trans}
        open={props.open}
        act={props.act}
      />
      <ClusterSection
        cluster={cluster}
        health={model.health}
        trans={trans}
        startEngine={props.startEngine}
        {...section('cluster')}
      />
      <StoreSection
        store={store}
        trans={trans}
        cleanUp={() => props.act('workbench:clean-up')}
        {...section('store')}
      />
    </div>
  );
}
