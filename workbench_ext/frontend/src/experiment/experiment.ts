/** The latest data of one open experiment. Law: it does not depend on the DOM; it fetches by cursors, only while the
 * page is visible. */

import { Poll } from '@lumino/polling';
import { ISignal, Signal } from '@lumino/signaling';

import {
  Api,
  ApiError,
  ENDED,
  IAbout,
  IExperiment,
  IExperimentAnswer,
  IGoal,
  ITrial,
  ITrials,
  Spec,
  experimentPath
} from '../server/api';
import { IChange, Live } from '../server/live';
import { Turns } from '../server/turns';

/** The result of one round of queries. */
export interface IChanged {
  /** Numbers of the changed trials. */
  readonly trials: readonly number[];
  /** There may be points after the last cursor. */
  readonly points: boolean;
  /** The journal may have grown. */
  readonly ladder: boolean;
}

/** Milliseconds between two queries for rows after announced changes. Points are fetched separately. */
const GAP = 250;

export class ExperimentModel {
  constructor(
    readonly api: Api,
    /** The experiment's id. */
    readonly ref: string,
    private _live: Live
  ) {
    this._poll = new Poll({
      name: `workbench:experiment:${this.key}`,
      auto: false,
      factory: () => this._ask(),
      frequency: _live.pace(),
      standby: () => (this._watched ? 'when-hidden' : true)
    });
    this._poll.ticked.connect((_, state) => {
      if (state.phase === 'rejected') {
        const reason: unknown = state.payload;
        this._error = reason instanceof ApiError ? reason : new ApiError(0, String(reason));
        this._stale = true;
        this._live.broke();
        this._changed.emit(NOTHING);
      }
    });
    this._soon = new Turns(() => this._poll.refresh(), GAP);
    _live.changed.connect(this._told, this);
  }

  get changed(): ISignal<this, IChanged> {
    return this._changed;
  }

  /** The server announced that it has grown. Its rows are being fetched; fetching points need not wait for that. */
  get told(): ISignal<this, void> {
    return this._toldOf;
  }

  /** Its name for commands. */
  get named(): { readonly experiment: string; readonly store: string } {
    return { experiment: this.ref, store: this.store };
  }

  /** A key that no other page has: a copy of a store has experiments with the same ids. */
  get key(): string {
    return `${this.store}-${this.ref}`;
  }

  /** The id of its store. */
  get store(): string {
    return this.api.store ?? '';
  }

  /** Its line of the list; null until the server answered once. */
  get row(): IExperiment | null {
    return this._row;
  }

  get meta(): Readonly<Record<string, unknown>> {
    return this._meta;
  }

  get spec(): Spec | null {
    return this._spec;
  }

  /** What it was asked to do, in words, and who launched it. A server of an earlier version does not say it. */
  get about(): IAbout | null {
    return this._about;
  }

  /** By number, in ascending order of first appearance. */
  get trials(): ReadonlyMap<number, ITrial> {
    return this._trials;
  }

  get goal(): IGoal | null {
    return this._row?.goal ?? null;
  }

  /** Whether no further changes are possible. */
  get ended(): boolean {
    return this._row !== null && ENDED.has(this._row.state);
  }

  /** True while the server does not answer: the page shows its last answer. */
  get stale(): boolean {
    return this._stale;
  }

  /** Why the server did not answer, in its words. */
  get error(): ApiError | null {
    return this._error;
  }

  /** Whether the page is visible. Nothing is fetched while it is not. */
  get watched(): boolean {
    return this._watched;
  }

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

  /** Fetch now: the user did something. */
  refresh(): Promise<void> {
    return this._poll.refresh();
  }

  dispose(): void {
    this._live.changed.disconnect(this._told, this);
    this._poll.dispose();
    this._soon.dispose();
    Signal.clearData(this);
  }

  private async _ask(): Promise<void> {
    const [answer, trials] = await Promise.all([
      this.api.get<IExperimentAnswer>(experimentPath(this.ref)).then(answer => this._begin(answer)),
      this.api.get<ITrials>(experimentPath(this.ref, 'trials'), { after: this._cursor, engine: this._engine })
    ]);
    if (!this._poll.isDisposed) {
      this._take(answer, trials);
    }
  }

  /** The first time, the page need not wait for all trials: curves are fetched meanwhile. */
  private _begin(answer: IExperimentAnswer): IExperimentAnswer {
    if (this._row === null && !this._poll.isDisposed) {
      this._row = { ...answer.experiment, store: this.store };
      this._meta = answer.meta;
      this._spec = answer.spec;
      this._about = answer.about;
      this._changed.emit(NOTHING);
    }
    return answer;
  }

  private _take(answer: IExperimentAnswer, { cursor, engine, trials }: ITrials): void {
    const ran = !this.ended;
    const text = JSON.stringify(answer);
    const same = text === this._text && !this._stale && trials.length === 0;
    this._text = text;
    this._row = { ...answer.experiment, store: this.store };
    this._meta = answer.meta;
    this._spec = answer.spec;
    this._about = answer.about;
    this._stale = false;
    this._error = null;
    // The cursor moves only with the data of its answer: after a lost answer, the query is repeated.
    this._cursor = cursor;
    this._engine = engine;
    for (const trial of trials) {
      this._trials.set(trial.number, trial);
    }
    this._poll.frequency = this._live.pace(this.ended);
    // Points come without any trial's row changing; after its end, none do.
    const grew = ran || trials.length > 0;
    if (!same || grew) {
      this._changed.emit({
        trials: trials.map(trial => trial.number),
        points: grew,
        ladder: grew
      });
    }
  }

  private _told(_: Live, { store, experiments }: IChange): void {
    const isMeant = store === this.store && experiments.includes(this.ref);
    if (this._watched && !document.hidden && isMeant) {
      this._toldOf.emit();
      this._soon.ask();
    }
  }

  private _about: IAbout | null = null;
  private _changed = new Signal<this, IChanged>(this);
  private _cursor = 0;
  /** Whether an engine ran at that answer: without one, the states of trials are others. Null before the first. */
  private _engine: boolean | null = null;
  private _error: ApiError | null = null;
  private _meta: Readonly<Record<string, unknown>> = {};
  private _poll: Poll;
  private _row: IExperiment | null = null;
  private _soon: Turns;
  private _spec: Spec | null = null;
  private _stale = false;
  private _text = '';
  private _toldOf = new Signal<this, void>(this);
  private _trials = new Map<number, ITrial>();
  private _watched = false;
}

const NOTHING: IChanged = { trials: [], points: false, ladder: false };
