/** The latest state of machines and disk. Law: it does not depend on the DOM; it fetches only what is shown. */

import { Poll } from '@lumino/polling';
import { ISignal, Signal } from '@lumino/signaling';

import { Api, ApiError } from '../server/api';

/** The longest pause after the server did not answer, in milliseconds. */
const LONGEST = 15000;

/** Data that is polled while it is shown. */
export class Followed<T> {
  /** `interval`: milliseconds between two queries. */
  constructor(api: Api, path: string, interval: number) {
    this._poll = new Poll({
      name: `workbench:${path}:${api.store ?? ''}`,
      auto: false,
      factory: async () => {
        const value = await api.get<T>(path);
        const text = JSON.stringify(value);
        if (text !== this._text || this._error !== null) {
          this._text = text;
          this._value = value;
          this._error = null;
          this._changed.emit();
        }
      },
      frequency: { interval, backoff: 2, max: Math.max(interval, LONGEST) },
      standby: () => (this._watched ? 'when-hidden' : true)
    });
    this._poll.ticked.connect((_, { phase, payload }) => {
      if (phase === 'rejected') {
        const reason: unknown = payload;
        this._error = reason instanceof ApiError ? reason : new ApiError(0, String(reason));
        this._changed.emit();
      }
    });
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The server's last answer; null before the first. */
  get value(): T | null {
    return this._value;
  }

  /** Why it did not answer the last time. */
  get error(): ApiError | null {
    return this._error;
  }

  set watched(watched: boolean) {
    if (watched !== this._watched) {
      this._watched = watched;
      void (watched ? this._poll.refresh() : this._poll.stop());
    }
  }

  /** Fetch now, if it is shown. */
  refresh(): void {
    if (this._watched) {
      void this._poll.refresh();
    }
  }

  dispose(): void {
    this._poll.dispose();
    Signal.clearData(this);
  }

  private _changed = new Signal<this, void>(this);
  private _error: ApiError | null = null;
  private _poll: Poll;
  private _text = '';
  private _value: T | null = null;
  private _watched = false;
}
