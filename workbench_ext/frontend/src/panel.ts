/** The sidebar's list of experiments. Law: never fetches; whatever came from outside is set as text. */

import { ITranslator, TranslationBundle, nullTranslator } from '@jupyterlab/translation';
import { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { IExperiment, State, Value } from './api';
import { ExperimentsModel } from './model';

/** A sign beside each state's word, so that neither colour nor language is needed to tell them apart. */
const SIGNS: Readonly<Record<State, string>> = {
  waiting: '…',
  running: '▶',
  paused: '‖',
  stopping: '▣',
  completed: '✓',
  stopped: '■',
  failed: '✕'
};

export class ExperimentsPanel extends Widget {
  constructor(model: ExperimentsModel, translator: ITranslator = nullTranslator) {
    super();
    this._model = model;
    this._trans = translator.load('workbench');
    this.id = 'workbench-experiments';
    this.addClass('wb-Experiments');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', this._trans.__('Experiments'));
    this.title.caption = this._trans.__('Workbench experiments');

    const title = element('h2', 'wb-Experiments-title', this._trans.__('Experiments'));
    this._note = element('div', 'wb-Experiments-note');
    this._note.setAttribute('role', 'status');
    this._list = element('ul', 'wb-Experiments-list');
    this.node.append(title, this._note, this._list);
    model.changed.connect(this.update, this);
    this.update();
  }

  dispose(): void {
    this._model.changed.disconnect(this.update, this);
    this._model.dispose();
    super.dispose();
  }

  protected onAfterShow(_: Message): void {
    this._model.watched = true;
    this.update();
  }

  protected onBeforeHide(_: Message): void {
    this._model.watched = false;
  }

  protected onAfterAttach(_: Message): void {
    this._model.watched = this.isVisible;
  }

  protected onBeforeDetach(_: Message): void {
    this._model.watched = false;
  }

  protected onUpdateRequest(_: Message): void {
    const { experiments, stale } = this._model;
    this._note.textContent = note(experiments, stale, this._trans);
    this._note.hidden = this._note.textContent === '';
    this._note.classList.toggle('wb-mod-stale', stale);
    this._list.replaceChildren(
      ...(experiments ?? []).map(experiment => row(experiment, this._trans))
    );
  }

  private _list: HTMLElement;
  private _model: ExperimentsModel;
  private _note: HTMLElement;
  private _trans: TranslationBundle;
}

function note(
  experiments: readonly IExperiment[] | null,
  stale: boolean,
  trans: TranslationBundle
): string {
  if (stale) {
    return trans.__('The server does not answer; this is what it said last.');
  }
  if (experiments === null) {
    return trans.__('Reading the store …');
  }
  return experiments.length === 0
    ? trans.__('No experiments yet. A cell that begins with %1 starts one.', '%%train NAME')
    : '';
}

function row(experiment: IExperiment, trans: TranslationBundle): HTMLElement {
  const item = element('li', 'wb-Experiment');
  item.dataset.experiment = experiment.id;
  item.title = experiment.reason ?? '';

  const state = element('span', `wb-Experiment-state wb-mod-${experiment.state}`);
  const sign = element('span', '', `${SIGNS[experiment.state] ?? '?'} `);
  sign.setAttribute('aria-hidden', 'true');
  state.append(sign, trans.__(experiment.state));

  item.append(
    element('span', 'wb-Experiment-name', experiment.label),
    state,
    element('span', 'wb-Experiment-best', best(experiment, trans)),
    element('span', 'wb-Experiment-trials', counted(experiment, trans)),
    element('span', 'wb-Experiment-age', age(experiment.created, trans))
  );
  if (experiment.progress !== null && experiment.state === 'running') {
    const progress = document.createElement('progress');
    progress.className = 'wb-Experiment-progress';
    progress.max = 1;
    progress.value = experiment.progress;
    progress.setAttribute('aria-label', trans.__('Progress of %1', experiment.label));
    item.append(progress);
  }
  return item;
}

/** `val_acc 0.9778 (t0031)` */
function best({ best, goal }: IExperiment, trans: TranslationBundle): string {
  return best === null || goal === null
    ? trans.__('no value yet')
    : `${goal.metric} ${shown(best.value)} (${best.trial})`;
}

/** `17 of 49 trials` */
function counted({ trials }: IExperiment, trans: TranslationBundle): string {
  return trials.planned === null
    ? trans._n('%1 trial', '%1 trials', trials.begun, trials.begun)
    : trans.__('%1 of %2 trials', trials.begun, trials.planned);
}

function shown(value: Value): string {
  return typeof value === 'number' ? String(Number(value.toPrecision(4))) : value;
}

function age(created: string, trans: TranslationBundle): string {
  const minutes = Math.floor((Date.now() - Date.parse(created)) / 60000);
  if (!Number.isFinite(minutes)) {
    return '';
  }
  if (minutes < 1) {
    return trans.__('now');
  }
  if (minutes < 60) {
    return trans.__('%1 min', minutes);
  }
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? trans.__('%1 h', hours) : trans.__('%1 d', Math.floor(hours / 24));
}

function element(tag: string, className: string, text = ''): HTMLElement {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}
