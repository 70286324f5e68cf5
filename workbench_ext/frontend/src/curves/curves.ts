/** The latest curves of one metric. Law: it does not depend on the DOM; it fetches the drawn part by cursors of x. */

import { ISignal, Signal } from '@lumino/signaling';

import { ICurves, experimentPath } from '../server/api';
import { ExperimentModel, IChanged } from '../experiment/experiment';
import { IPath, headed, path, splice, thin } from './thin';
import { Turns, painted } from '../server/turns';

/** Milliseconds between two queries for new points, while the curves grow. */
const GAP = 100;
/** Columns to fetch for new points, which are a short end. */
const END_WIDTH = 200;
const MOVING: ReadonlySet<string> = new Set(['running', 'stopping']);

export type Unit = 'step' | 'time';

export class Curves {
  /** `width`: pixels across which the curves are drawn. */
  constructor(
    private _experiment: ExperimentModel,
    readonly metric: string,
    readonly unit: Unit,
    private _width: number,
    /** Whether x is logarithmic: then its first hundredth is as wide as all the rest. */
    private _log = false,
    /** The trials that are shown; null for all. */
    private _only: readonly number[] | null = null,
    /** Whether `metric` is what was measured of processes, and not a metric. */
    private _system = false
  ) {
    _experiment.told.connect(this._told, this);
    _experiment.changed.connect(this._hear, this);
    void this._load();
  }

  /** Curves were loaded, have grown, or could not be loaded. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** By trial; null until the server answered once. A new map whenever something in it changed. */
  get paths(): ReadonlyMap<number, IPath> | null {
    return this._paths;
  }

  /** The zoomed part, point by point if there are few enough; null if everything is shown. */
  get detail(): { readonly low: number; readonly high: number; readonly paths: ReadonlyMap<number, IPath> } | null {
    return this._detail;
  }

  /** Why there are none, in the server's words. */
  get error(): string | null {
    return this._error;
  }

  /** Zoom into a part of x; null shows everything. */
  async look(range: readonly [number, number] | null): Promise<void> {
    const turn = ++this._looks;
    if (range === null) {
      this._detail = null;
      this._changed.emit();
      return;
    }
    const [low, high] = range;
    const answer = await this._ask({ low, high, width: this._width }).catch(() => null);
    if (answer && turn === this._looks && !this._disposed) {
      this._detail = { low, high, paths: byTrial(answer) };
      this._changed.emit();
    }
  }

  dispose(): void {
    this._disposed = true;
    this._turns.dispose();
    this._experiment.told.disconnect(this._told, this);
    this._experiment.changed.disconnect(this._hear, this);
    Signal.clearData(this);
  }

  private _ask(query: Record<string, string | number>): Promise<ICurves> {
    return this._experiment.api.get<ICurves>(experimentPath(this._experiment.ref, 'curves'), {
      [this._system ? 'system' : 'metric']: this.metric,
      x: this.unit,
      ...(this._only && { trials: this._only.join(',') }),
      ...query
    });
  }

  private async _load(): Promise<void> {
    try {
      let answer = await this._ask({ width: this._width, draft: 1 });
      this._show(answer);
      if (answer.draft && !this._disposed) {
        answer = await this._ask({ width: this._width });
        this._show(answer);
      }
      if (this._log) {
        await this._refine(answer);
      }
    } catch (error) {
      if (!this._disposed) {
        this._error = error instanceof Error ? error.message : String(error);
        this._changed.emit();
      }
    }
  }

  /** The beginnings of curves that were thinned, more closely. */
  private async _refine({ curves }: ICurves): Promise<void> {
    const thinned = curves.some(curve => curve.thinned);
    const last = Math.max(...curves.map(({ x }) => x[x.length - 1] ?? 0));
    for (const high of thinned ? [last / 20, last / 400] : []) {
      const heads = byTrial(await this._ask({ high, width: this._width }));
      if (this._disposed) {
        return;
      }
      const paths = new Map(this._paths);
      for (const head of heads.values()) {
        const path = paths.get(head.trial);
        paths.set(head.trial, path ? headed(path, head, high) : head);
      }
      this._paths = paths;
      this._changed.emit();
    }
  }

  private _show(answer: ICurves): void {
    if (!this._disposed) {
      this._paths = byTrial(answer);
      this._error = null;
      this._changed.emit();
    }
  }

  /** Something grew: fetch the running trials' curves at once, in parallel with the trials. */
  private _told(): void {
    this._since.clear();
    if (this._paths !== null) {
      this._want(this._moving());
    }
  }

  private _hear(_: ExperimentModel, { trials, points }: IChanged): void {
    // The first list of all trials is not news about their curves, which are already being fetched.
    const isNews = this._paths !== null || trials.length < this._experiment.trials.size;
    const grown = [...(isNews ? trials : []), ...(points ? this._moving() : [])];
    this._want(grown.filter(trial => !this._since.has(trial)));
    this._since.clear();
  }

  private _want(trials: readonly number[]): void {
    trials.filter(trial => this._only?.includes(trial) ?? true).forEach(trial => this._due.add(trial));
    if (this._due.size > 0) {
      this._turns.ask();
    }
  }

  private _moving(): number[] {
    return [...this._experiment.trials.values()].filter(({ state }) => MOVING.has(state)).map(({ number }) => number);
  }

  /** Ask for the ends of what may have grown. */
  private async _follow(): Promise<void> {
    const due = [...this._due];
    this._due.clear();
    due.forEach(trial => this._since.add(trial));
    try {
      if (this._paths === null) {
        await this._load();
        return;
      }
      const known = this._paths;
      const begun = due.filter(trial => known.has(trial));
      const fresh = due.filter(trial => !known.has(trial));
      const low = Math.min(...begun.map(trial => lastOf(known.get(trial)!)));
      const [ends, wholes] = await Promise.all([
        begun.length ? this._ask({ trials: begun.join(','), low, width: END_WIDTH }) : null,
        fresh.length ? this._ask({ trials: fresh.join(','), width: this._width }) : null
      ]);
      if (!this._disposed) {
        this._join(ends, wholes);
        // Painting many curves takes a while: it is part of the turn.
        await painted();
      }
    } catch {
      // The server did not answer: the page says so. The next change fetches again.
      due.forEach(trial => this._due.add(trial));
    }
  }

  private _join(ends: ICurves | null, wholes: ICurves | null): void {
    const paths = new Map(this._paths);
    const detail = this._detail && new Map(this._detail.paths);
    let grew = false;
    for (const curve of ends?.curves ?? []) {
      const end = path(curve);
      const before = paths.get(end.trial)!;
      const after = splice(before, end);
      if (after !== before) {
        grew = true;
        paths.set(end.trial, thin(after, this._width));
        const closer = detail?.get(end.trial);
        detail?.set(end.trial, closer ? splice(closer, end) : end);
      }
    }
    for (const curve of wholes?.curves ?? []) {
      grew = true;
      paths.set(curve.trial, path(curve));
      detail?.set(curve.trial, path(curve));
    }
    if (grew) {
      this._paths = paths;
      this._detail = detail && { ...this._detail!, paths: detail };
      this._changed.emit();
    }
  }

  private _changed = new Signal<this, void>(this);
  private _detail: { low: number; high: number; paths: ReadonlyMap<number, IPath> } | null = null;
  private _disposed = false;
  private _due = new Set<number>();
  private _error: string | null = null;
  private _looks = 0;
  private _paths: ReadonlyMap<number, IPath> | null = null;
  /** Trials fetched since the server announced a change: the rows of that change are not further news. */
  private _since = new Set<number>();
  private _turns = new Turns(() => this._follow(), GAP);
}

function byTrial(answer: ICurves): Map<number, IPath> {
  return new Map(answer.curves.map(curve => [curve.trial, path(curve)]));
}

function lastOf({ x }: IPath): number {
  return x[x.length - 1] ?? 0;
}
