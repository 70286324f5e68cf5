/** The latest list of one store's experiments. Law: it does not depend on the DOM; it fetches only while it is shown.
 * */

import { Poll, Throttler } from '@lumino/polling';
import { ISignal, Signal } from '@lumino/signaling';

import { Api, ENDED, IExperiment, IExperiments, IHealth, Kept } from '../server/api';
import { IChange, Live } from '../server/live';

/** Milliseconds for which announced changes are batched. */
const GATHERED = 300;

/** The list's address. */
const PATH = 'experiments';

/** The same while the list is hidden: only notifications wait for it. */
const UNSEEN = 3000;

/** Whether nothing trains or is about to in an experiment of this state. */
const rests = (state: string) => ENDED.has(state) || state === 'paused' || state === 'unreadable';

export class ExperimentsModel {
  constructor(
    readonly api: Api,
    private _live: Live
  ) {
    this._poll = new Poll({
      name: `workbench:experiments:${api.store ?? ''}`,
      auto: false,
      factory: () => this._ask(),
      frequency: _live.pace(),
      standby: () => (this._watched ? 'when-hidden' : true)
    });
    this._poll.ticked.connect((_, state) => {
      if (state.phase === 'rejected') {
        this._fail(state.payload);
      }
    });
    // Many changes may be announced at once.
    this._soon = new Throttler(() => this.refresh(), { limit: GATHERED, edge: 'trailing' });
    this._later = new Throttler(() => this.refresh(), { limit: UNSEEN, edge: 'trailing' });
    _live.changed.connect(this._told, this);
  }

  /** Some shown data changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Newest first; null until the server answered once. */
  get experiments(): readonly IExperiment[] | null {
    return this._experiments;
  }

  /** The server's facts about itself, the store and the engine; null until it answered once. */
  get health(): IHealth | null {
    return this._health;
  }

  /** True while the server does not answer: the last answer is shown. */
  get stale(): boolean {
    return this._error !== null;
  }

  /** Why there is no new data, in the server's words if it sent any. */
  get error(): string | null {
    return this._error;
  }

  /** Milliseconds from one query to the next. */
  get interval(): number {
    return this._poll.frequency.interval;
  }

  /** Whether the list is shown. Nothing is fetched while it is not. */
  set watched(watched: boolean) {
    if (watched === this._watched) {
      return;
    }
    this._watched = watched;
    if (watched) {
      void this._poll.refresh();
    } else {
      void this._poll.stop();
    }
  }

  get(id: string): IExperiment | undefined {
    return this._experiments?.find(experiment => experiment.id === id);
  }

  /** Fetch now, even if hidden: the user did something, or an event announced a change. Calls that come while one
   * fetches share the next one: a request for each of many experiments must not fetch a long list as often. */
  refresh(): Promise<void> {
    if (this._asking === null) {
      return this._ask().catch((reason: unknown) => this._fail(reason));
    }
    const again = () => {
      this._next = null;
      return this.refresh();
    };
    this._next ??= this._asking.then(again, again);
    return this._next;
  }

  dispose(): void {
    this._live.changed.disconnect(this._told, this);
    this._poll.dispose();
    this._soon.dispose();
    this._later.dispose();
    Signal.clearData(this);
  }

  /** One query at a time: the poll and a refresh that meet share it. */
  private _ask(): Promise<void> {
    this._asking ??= this._query().finally(() => {
      this._asking = null;
    });
    return this._asking;
  }

  private async _query(): Promise<void> {
    const [kept, health] = await Promise.all([this.api.again(PATH, this._kept), this.api.get<IHealth>('health')]);
    if (!this._poll.isDisposed) {
      this._take(kept, health);
    }
  }

  private _take(kept: Kept<IExperiments>, health: IHealth): void {
    // The text of a long list is not made again for the same answer.
    const list = kept === this._kept ? this._list : JSON.stringify(kept.answer);
    const about = JSON.stringify(health);
    const isSame = list === this._list && about === this._about && this._error === null;
    this._kept = kept;
    if (!isSame) {
      const store = this.api.store ?? '';
      this._list = list;
      this._about = about;
      this._error = null;
      this._experiments = (kept.answer?.experiments ?? []).map(row => ({ ...row, store }));
      this._health = health;
    }
    this._pace();
    if (!isSame) {
      this._changed.emit();
    }
  }

  private _fail(reason: unknown): void {
    this._error = reason instanceof Error ? reason.message : String(reason);
    this._live.broke();
    this._pace();
    this._changed.emit();
  }

  private _pace(): void {
    // Without events the page asks each second, but when everything has ended no events are expected. The server draws
    // the sparklines of a long list in several answers.
    const rows = this._kept.answer;
    this._poll.frequency = this._live.pace(
      rows !== null && !rows.more && rows.experiments.every(one => rests(one.state))
    );
  }

  private _told(_: Live, { store, catalog }: IChange): void {
    if (store === this.api.store && !document.hidden && (this._watched || catalog)) {
      void (this._watched ? this._soon : this._later).invoke();
    }
  }

  private _about = '';
  private _asking: Promise<void> | null = null;
  private _changed = new Signal<this, void>(this);
  private _error: string | null = null;
  private _experiments: readonly IExperiment[] | null = null;
  private _health: IHealth | null = null;
  private _kept = new Kept<IExperiments>();
  private _later: Throttler;
  private _list = '';
  private _next: Promise<void> | null = null;
  private _poll: Poll;
  private _soon: Throttler;
  private _watched = false;
}
