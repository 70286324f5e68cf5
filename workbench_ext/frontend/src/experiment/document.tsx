/** The page of one experiment, in the main area: a header, tabs, and the view of the tab. Law: never fetches. */

import { MainAreaWidget, ReactWidget } from '@jupyterlab/apputils';
import { Message } from '@lumino/messaging';
import { ISignal, Signal } from '@lumino/signaling';
import * as React from 'react';

import { Boundary } from '../boundary';
import { IExperiment } from '../server/api';
import { IContext, IPageContext } from './context';
import { ExperimentModel } from './experiment';
import { Header } from './header';
import { shortened } from '../numbers';
import { useSignal } from '../hooks';
import { experimentsIcon } from '../icons';
import { Selection } from './selection';
import { Since } from './since';
import { ViewState } from '../state';
import { openTrialMenu } from '../trial/menu';
import { stateWord } from '../words';
import { PAGES, VIEWS } from './views';

/** Characters that JupyterLab's tabs show; it cuts off what is beyond. */
const TITLE = 20;

/** What a page shows: a tab, or one trial in its place. */
export class Place {
  constructor(tab: string, trial: number | null) {
    this._tab = VIEWS.some(({ id }) => id === tab) ? tab : VIEWS[0]!.id;
    this._trial = trial;
  }

  get tab(): string {
    return this._tab;
  }

  get trial(): number | null {
    return this._trial;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  showTab(tab: string): void {
    this._tab = tab;
    this._trial = null;
    this._changed.emit();
  }

  showTrial(trial: number): void {
    this._trial = trial;
    this._changed.emit();
  }

  private _changed = new Signal<this, void>(this);
  private _tab: string;
  private _trial: number | null;
}

export class ExperimentDocument extends MainAreaWidget<ReactWidget> {
  constructor(
    page: IPageContext,
    readonly experiment: ExperimentModel,
    state: ViewState,
    readonly place: Place
  ) {
    const context: IContext = {
      ...page,
      experiment,
      selection: new Selection(),
      state,
      openTrial: trial => place.showTrial(trial),
      openMenu: (trial, left, top) => openTrialMenu(context, trial, left, top)
    };
    const since = new Since(experiment, state);
    super({ content: ReactWidget.create(<Page context={context} place={place} since={since} />) });
    this._since = since;
    this.id = `workbench-experiment-${experiment.key}`;
    this.addClass('wb-Document');
    this.toolbar.hide();
    this.node.dataset.shows = experiment.ref;
    this.title.icon = experimentsIcon;
    this.title.closable = true;
    this.title.dataset = { type: 'workbench-experiment', ...this.title.dataset };
    this.title.label = experiment.ref;
    this._context = context;
    experiment.changed.connect(this._told, this);
    document.addEventListener('visibilitychange', this._watch);
  }

  /** The context of its views. */
  get context(): IContext {
    return this._context;
  }

  /** The experiment's facts for its tab. A page that was not on the screen yet has not fetched them. */
  retitle(row: IExperiment): void {
    this.title.label = shortened(row.label, TITLE);
    this.title.caption = `${row.label}: ${stateWord(row.state, this._context.trans)}`;
  }

  dispose(): void {
    if (!this.isDisposed) {
      document.removeEventListener('visibilitychange', this._watch);
      this._since.dispose();
      this.experiment.dispose();
      super.dispose();
    }
  }

  protected onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._watch();
  }

  protected onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._watch();
  }

  protected onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this._watch();
  }

  protected onBeforeDetach(message: Message): void {
    super.onBeforeDetach(message);
    this.experiment.watched = false;
    this._since.leave();
  }

  /** Follow the experiment while this page is on the screen. */
  private _watch = (): void => {
    this.experiment.watched = this.isVisible;
    if (this.isVisible && !document.hidden) {
      this._since.look();
    } else {
      this._since.leave();
    }
  };

  private _told(): void {
    if (this.experiment.row) {
      this.retitle(this.experiment.row);
    }
  }

  private _context: IContext;
  private _since: Since;
}

function Page({ context, place, since }: { context: IContext; place: Place; since: Since }): React.JSX.Element {
  const { experiment, trans } = context;
  useSignal(experiment.changed);
  useSignal(place.changed);
  const view = VIEWS.find(({ id }) => id === place.tab) ?? VIEWS[0]!;
  const TrialPage = PAGES.trial;
  const inTrial = place.trial !== null && TrialPage !== null;
  if (experiment.row === null) {
    return (
      <p className="wb-Note" role="status">
        {experiment.error ? experiment.error.message : trans.__('Reading the experiment …')}
      </p>
    );
  }
  return (
    <div className="wb-Page">
      <Boundary what={trans.__('The header')} trans={trans} of={experiment.row}>
        <Header context={context} since={since} />
      </Boundary>
      <Tabs context={context} place={place} />
      <div className="wb-Page-view" role="tabpanel" aria-labelledby={tabId(experiment.key, view.id)} tabIndex={-1}>
        {inTrial ? (
          <Boundary key={`trial ${place.trial}`} what={trans.__('The trial')} trans={trans}>
            <TrialPage context={context} trial={place.trial} />
          </Boundary>
        ) : (
          <Boundary key={view.id} what={view.label(trans)} trans={trans}>
            <view.component context={context} />
          </Boundary>
        )}
      </div>
    </div>
  );
}

/** The tabs, following the ARIA practices: arrows move, and one of them is in the tab order. */
function Tabs({ context, place }: { context: IContext; place: Place }): React.JSX.Element {
  const { experiment, trans } = context;
  const list = React.useRef<HTMLDivElement>(null);
  const move = (event: React.KeyboardEvent) => {
    const at = VIEWS.findIndex(({ id }) => id === place.tab);
    const steps: Readonly<Record<string, number>> = {
      ArrowRight: (at + 1) % VIEWS.length,
      ArrowLeft: (at + VIEWS.length - 1) % VIEWS.length,
      Home: 0,
      End: VIEWS.length - 1
    };
    const to = steps[event.key];
    if (to !== undefined) {
      event.preventDefault();
      place.showTab(VIEWS[to]!.id);
      (list.current?.children[to] as HTMLElement | undefined)?.focus();
    }
  };
  return (
    <div className="wb-Tabs" role="tablist" aria-label={trans.__('Views')} ref={list} onKeyDown={move}>
      {VIEWS.map(({ id, label }) => {
        const selected = id === place.tab;
        return (
          <button
            key={id}
            id={tabId(experiment.key, id)}
            type="button"
            role="tab"
            className="wb-Tab"
            aria-selected={selected}
            tabIndex={selected ? 0 : -1}
            onClick={() => place.showTab(id)}
          >
            {label(trans)}
          </button>
        );
      })}
    </div>
  );
}

function tabId(key: string, view: string): string {
  return `wb-tab-${key}-${view}`;
}
