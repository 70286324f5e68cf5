/** The stores' changes from the server's event bus. Law: it reports which experiments changed, never how. */

import { Event } from '@jupyterlab/services';
import { ISignal, Signal } from '@lumino/signaling';

/** The schema id of our events; it is never fetched. */
const SCHEMA = 'urn:workbench:events:changed:v2';

/** Milliseconds between two queries: without the event bus, with it, and after a failed query. */
const INTERVAL = 1000;
const TOLD_INTERVAL = 5000;
const LONGEST_INTERVAL = 15000;

/** Milliseconds without an event after which the bus counts as silent. */
const SILENCE = 60000;

export interface IChange {
  /** The id of the store that changed. */
  readonly store: string;
  /** Ids of the experiments that changed. */
  readonly experiments: readonly string[];
  /** Whether the list itself changed. */
  readonly catalog: boolean;
}

export class Live {
  constructor(stream: Event.Stream | null) {
    stream?.connect(this._hear, this);
  }

  /** Something changed; fetch it by its cursor. */
  get changed(): ISignal<this, IChange> {
    return this._changed;
  }

  /** Whether the server announces changes, so that polling can be rare. */
  get told(): boolean {
    return Date.now() - this._heard < SILENCE;
  }

  /** Milliseconds between two queries without the event bus. */
  set interval(interval: number) {
    this._interval = interval;
  }

  /** The present polling interval; `ended`: no change is expected. */
  pace(ended = false): { interval: number; backoff: number; max: number } {
    const interval = this.told || ended ? Math.max(TOLD_INTERVAL, this._interval) : this._interval;
    return { interval, backoff: 2, max: Math.max(LONGEST_INTERVAL, interval) };
  }

  /** The connection broke: the bus counts as silent until the next event. */
  broke(): void {
    this._heard = -Infinity;
  }

  private _hear(_: unknown, event: Event.Emission): void {
    if (event.schema_id !== SCHEMA) {
      return;
    }
    this._heard = Date.now();
    const { store, experiments, catalog } = event as Readonly<Record<string, unknown>>;
    this._changed.emit({
      store: String(store),
      experiments: Array.isArray(experiments) ? experiments.map(String) : [],
      catalog: catalog === true
    });
  }

  private _changed = new Signal<this, IChange>(this);
  private _heard = -Infinity;
  private _interval = INTERVAL;
}
