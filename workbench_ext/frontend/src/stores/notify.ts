/** Notifies when a running experiment ends, fails or stalls. Law: only about experiments that this page saw running. A
 * notice is shown of those that are not in sight, and one for all that end in the same seconds. */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { TranslationBundle } from '@jupyterlab/translation';

import { ENDED, IExperiment, IHealth, State } from '../server/api';
import { StoreModel } from './stores';
import { IWorkbench } from '../tokens';
import { shown } from '../numbers';
import { tell } from '../notices';

/** Milliseconds for which one is shown; what comes within them is told with it. */
const SHOWN_MS = 15_000;
/** So many names are told of many. */
const NAMES = 4;

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

/** Tells news, and those of one kind that come soon after each other together. */
export class Bulletin {
  /** `say`: tells them in place of `replaces`, and returns an id. `isSeen`: whether the user looks at an experiment. */
  constructor(
    private readonly say: (
      kind: INews['kind'],
      news: readonly INews[],
      isQuiet: boolean,
      replaces: string | null
    ) => string,
    private readonly isSeen: (experiment: IExperiment) => boolean
  ) {}

  /** `now`: milliseconds. */
  add(one: INews, now: number): void {
    if (this.isSeen(one.experiment)) {
      this.say(one.kind, [one], true, null);
      return;
    }
    const before = this.told.get(one.kind);
    const isOpen = before !== undefined && now - before.at < SHOWN_MS;
    const news = isOpen ? [...before.news, one] : [one];
    const id = this.say(one.kind, news, false, isOpen ? before.id : null);
    this.told.set(one.kind, { id, news, at: now });
  }

  private told = new Map<INews['kind'], { id: string; news: readonly INews[]; at: number }>();
}

/** Whether a page or a cell that shows this experiment is on the screen. */
function isInSight({ id }: IExperiment): boolean {
  return [...document.querySelectorAll(`[data-shows="${CSS.escape(id)}"]`)].some(node => {
    const { top, bottom, height } = node.getBoundingClientRect();
    return height > 0 && bottom > 0 && top < window.innerHeight;
  });
}

export const notifications: JupyterFrontEndPlugin<void> = {
  id: 'workbench-ext:notifications',
  description: 'Tells when an experiment ends, fails or stalls',
  autoStart: true,
  requires: [IWorkbench],
  activate: ({ commands }: JupyterFrontEnd, { stores, settings, trans }: IWorkbench) => {
    const newsrooms = new WeakMap<StoreModel, Newsroom>();
    const bulletin = new Bulletin((kind, news, isQuiet, replaces) => {
      const { id, store } = news[0]!.experiment;
      const open = () => void commands.execute('workbench:open', { experiment: id, store });
      return tell(kind === 'ended' ? 'success' : 'error', together(news, trans), {
        forMs: SHOWN_MS,
        isQuiet,
        ...(replaces ? { replaces } : {}),
        ...(news.length === 1 ? { actions: [{ label: trans.__('Open'), callback: open }] } : {})
      });
    }, isInSight);
    stores.experimentsChanged.connect((_, store) => {
      const { experiments } = store;
      if (experiments.experiments === null || experiments.stale) {
        return;
      }
      const newsroom = newsrooms.get(store) ?? new Newsroom();
      newsrooms.set(store, newsroom);
      for (const news of newsroom.read(experiments.experiments, experiments.health)) {
        if (news.kind === 'ended' ? settings.value.notifyEnd : settings.value.notifyTrouble) {
          bulletin.add(news, Date.now());
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

/** The words for news of one kind. */
export function together(news: readonly INews[], trans: TranslationBundle): string {
  if (news.length === 1) {
    return said(news[0]!, trans);
  }
  const labels = news.map(({ experiment }) => experiment.label);
  const rest = labels.length - NAMES;
  const names = labels.slice(0, rest > 1 ? NAMES : undefined).join(', ');
  const all = rest > 1 ? trans.__('%1 and %2 more', names, rest) : names;
  const words = {
    ended: trans.__('%1 experiments have ended: %2', news.length, all),
    failed: trans.__('%1 experiments failed: %2', news.length, all),
    stalled: trans.__('%1 experiments have stalled: %2', news.length, all)
  };
  return words[news[0]!.kind];
}

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
