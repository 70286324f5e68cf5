/** The curves that the charts of a trial's page show. Law: it does not depend on the DOM; it asks one question at a time,
 * in rounds with pauses between them, and only for charts that are on the screen. */

import { ISignal, Signal } from '@lumino/signaling';

import { Api, ICurve, ICurves, IMetrics, Query, experimentPath } from '../server/api';
import { Turns } from '../server/turns';

/** Milliseconds between two rounds: a trial may report many times a second, and a browser has six connections for all
 * that JupyterLab asks of its server. */
const GAP = 500;

/** What a chart shows: a metric, or what was measured of processes. */
export type Kind = 'metric' | 'system';

export class Rounds {
  /** `width`: pixels across which a curve is drawn. */
  constructor(
    private _experiment: { readonly api: Pick<Api, 'get'>; readonly ref: string },
    private _trial: number,
    private _width: number
  ) {}

  /** Something was answered, or refused. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** What the trial has reported, and what was measured of it; null until the server answered once. */
  get listed(): IMetrics | null {
    return this._listed;
  }

  /** The curve of a chart; undefined until the chart was on the screen and the server answered. */
  curve(kind: Kind, name: string): ICurve | undefined {
    return this._curves.get(keyOf(kind, name));
  }

  /** Why something could not be read, in the server's words. */
  get error(): string | null {
    return this._unlisted ?? [...this._failed.values()][0] ?? null;
  }

  /** The trial has changed. */
  ask(): void {
    this._turn += 1;
    this._listing.ask();
    // A round without charts would let the first ones wait for the pause after it.
    if (this._shown.size > 0) {
      this._drawing.ask();
    }
  }

  /** From now on a chart is on the screen. */
  show(kind: Kind, name: string): void {
    this._shown.set(keyOf(kind, name), { kind, name });
    this._drawing.ask();
  }

  /** A chart is no longer on the screen. */
  hide(kind: Kind, name: string): void {
    this._shown.delete(keyOf(kind, name));
  }

  dispose(): void {
    this._isDisposed = true;
    this._listing.dispose();
    this._drawing.dispose();
    Signal.clearData(this);
  }

  private async _list(): Promise<void> {
    try {
      this._listed = await this._get<IMetrics>('metrics', { trials: [this._trial] });
      this._unlisted = null;
    } catch (error) {
      this._unlisted = wordsOf(error);
    }
    this._changed.emit();
  }

  private async _draw(): Promise<void> {
    // A chart that comes on the screen meanwhile is asked for in the same round: maps are walked with what is added.
    for (const [key, { kind, name }] of this._shown) {
      if (this._isDisposed) {
        return;
      }
      const turn = this._turn;
      if (this._asked.get(key) === turn) {
        continue;
      }
      try {
        const { curves } = await this._get<ICurves>('curves', {
          [kind]: name,
          trials: [this._trial],
          width: this._width
        });
        const found = curves.find(({ trial }) => trial === this._trial);
        if (found) {
          this._curves.set(key, found);
        }
        this._failed.delete(key);
      } catch (error) {
        // The other charts are drawn anyway; this one is asked for again when the trial has changed.
        this._failed.set(key, wordsOf(error));
      }
      this._asked.set(key, turn);
      this._changed.emit();
    }
  }

  private _get<T>(below: string, query: Query): Promise<T> {
    return this._experiment.api.get<T>(experimentPath(this._experiment.ref, below), query);
  }

  /** By key: the turn in which its curve was asked for last. */
  private _asked = new Map<string, number>();
  private _changed = new Signal<this, void>(this);
  private _curves = new Map<string, ICurve>();
  /** By key: why its curve could not be read. */
  private _failed = new Map<string, string>();
  private _drawing = new Turns(() => this._draw(), GAP);
  private _isDisposed = false;
  private _listed: IMetrics | null = null;
  private _listing = new Turns(() => this._list(), GAP);
  private _shown = new Map<string, { readonly kind: Kind; readonly name: string }>();
  /** It counts the changes of the trial. */
  private _turn = 0;
  private _unlisted: string | null = null;
}

function keyOf(kind: Kind, name: string): string {
  return `${kind} ${name}`;
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
