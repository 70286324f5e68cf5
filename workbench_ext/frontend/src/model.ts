/** The experiments as last heard of. Law: knows no DOM; asks only while somebody looks. */

import { ServerConnection } from '@jupyterlab/services';
import { Poll } from '@lumino/polling';
import { ISignal, Signal } from '@lumino/signaling';

import { IExperiment, IExperiments, requestAPI } from './api';

/** Milliseconds between two questions, and the longest pause after the server did not answer. */
const INTERVAL = 1000;
const LONGEST = 15000;

export class ExperimentsModel {
  constructor(settings: ServerConnection.ISettings) {
    this._poll = new Poll({
      name: 'workbench:experiments',
      auto: false,
      factory: async () => {
        this._take(await requestAPI<IExperiments>('experiments', settings));
      },
      frequency: { interval: INTERVAL, backoff: 2, max: LONGEST },
      standby: () => (this._watched ? 'when-hidden' : true)
    });
    this._poll.ticked.connect((_, state) => {
      if (state.phase === 'rejected') {
        this._stale = true;
        this._changed.emit();
      }
    });
  }

  /** Something that is shown is no longer what it was. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Newest first; null until the server answered once. */
  get experiments(): readonly IExperiment[] | null {
    return this._experiments;
  }

  /** True while the server does not answer: what is shown is what it said last. */
  get stale(): boolean {
    return this._stale;
  }

  /** Whether somebody looks. Nothing is asked while nobody does. */
  set watched(watched: boolean) {
    this._watched = watched;
    if (watched) {
      void this._poll.refresh();
    } else {
      void this._poll.stop();
    }
  }

  dispose(): void {
    this._poll.dispose();
    Signal.clearData(this);
  }

  private _take(answer: IExperiments): void {
    const text = JSON.stringify(answer.experiments);
    if (text === this._text && !this._stale) {
      return;
    }
    this._text = text;
    this._stale = false;
    this._experiments = answer.experiments;
    this._changed.emit();
  }

  private _changed = new Signal<this, void>(this);
  private _experiments: readonly IExperiment[] | null = null;
  private _poll: Poll;
  private _stale = false;
  private _text = '';
  private _watched = false;
}
