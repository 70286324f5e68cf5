/** Notifies when a running experiment ends, fails or stalls. Law: only about experiments that this page saw running. */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';

import { ENDED, IExperiment, IHealth, State } from '../server/api';
import { StoreModel } from './stores';
import { IWorkbench } from '../tokens';
import { shown } from '../numbers';

/** Milliseconds for which good news is shown; bad news stays until it is dismissed. */
const GOOD_NEWS = 15000;

/** A notification. */
export interface INews {
  readonly kind: 'ended' | 'failed' | 'stalled';
  readonly experiment: IExperiment;
}

/** Compares the list with the previous one. It does not depend on JupyterLab. */
export class Newsroom {
  /** What is new since the last list. */
  read(experiments: readonly IExperiment[], health: IHealth | null): readonly INews[] {
    const news: INews[] = [];
    const alive = health?.engine.alive ?? true;
    for (const experiment of experiments) {
      const before = this._states.get(experiment.id);
      this._states.set(experiment.id, experiment.state);
      if (before === undefined || before === experiment.state || ENDED.has(before)) {
        continue;
      }
      if (experiment.state === 'failed') {
        news.push({ kind: 'failed', experiment });
      } else if (ENDED.has(experiment.state)) {
        news.push({ kind: 'ended', experiment });
      } else if (experiment.state === 'waiting' && before === 'running' && !alive) {
        news.push({ kind: 'stalled', experiment });
      }
    }
    return news;
  }

  private _states = new Map<string, State>();
}

export const notifications: JupyterFrontEndPlugin<void> = {
  id: 'workbench-ext:notifications',
  description: 'Tells when an experiment ends, fails or stalls',
  autoStart: true,
  requires: [IWorkbench],
  activate: ({ commands }: JupyterFrontEnd, { stores, settings, trans }: IWorkbench) => {
    const newsrooms = new WeakMap<StoreModel, Newsroom>();
    stores.experimentsChanged.connect((_, store) => {
      const { experiments } = store;
      if (experiments.experiments === null || experiments.stale) {
        return;
      }
      const newsroom = newsrooms.get(store) ?? new Newsroom();
      newsrooms.set(store, newsroom);
      for (const news of newsroom.read(experiments.experiments, experiments.health)) {
        const good = news.kind === 'ended';
        if (good ? settings.value.notifyEnd : settings.value.notifyTrouble) {
          Notification.emit(said(news, trans), good ? 'success' : 'error', {
            autoClose: good ? GOOD_NEWS : false,
            actions: [
              {
                label: trans.__('Open'),
                callback: () =>
                  void commands.execute('workbench:open', {
                    experiment: news.experiment.id,
                    store: store.id
                  })
              }
            ]
          });
        }
      }
    });
    // From then on the server announces changes, also while the sidebar is closed.
    void stores.refresh();
    document.addEventListener('visibilitychange', () => {
      const known = stores.all?.filter(({ experiments }) => experiments.experiments !== null);
      if (!document.hidden) {
        known?.forEach(({ experiments }) => void experiments.refresh());
      }
    });
  }
};

/** `digits@2 completed: best val_acc 0.978 (t0031)` */
export function said({ kind, experiment }: INews, trans: TranslationBundle): string {
  const { label, state, best, goal, reason } = experiment;
  if (kind === 'stalled') {
    return trans.__('%1 has stalled: %2', label, reason ?? trans.__('no engine runs'));
  }
  if (kind === 'failed') {
    return reason ? trans.__('%1 failed: %2', label, reason) : trans.__('%1 failed', label);
  }
  const ended = state === 'stopped' ? trans.__('%1 was stopped', label) : trans.__('%1 is complete', label);
  return best && goal ? trans.__('%1: best %2 %3 (%4)', ended, goal.metric, shown(best.value), best.trial) : ended;
}
