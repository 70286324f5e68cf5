/** The selected trials of one page; all its views share them. Law: it does not depend on DOM or server. */

import { ISignal, Signal } from '@lumino/signaling';

export class Selection {
  /** The selected trials. */
  get trials(): ReadonlySet<number> {
    return this._trials;
  }

  /** The trial under the pointer. */
  get hovered(): number | null {
    return this._hovered;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  set(trials: Iterable<number>): void {
    const next = new Set(trials);
    if (next.size === this._trials.size && [...next].every(trial => this._trials.has(trial))) {
      return;
    }
    this._trials = next;
    this._changed.emit();
  }

  toggle(trial: number): void {
    const next = new Set(this._trials);
    if (!next.delete(trial)) {
      next.add(trial);
    }
    this.set(next);
  }

  hover(trial: number | null): void {
    if (trial !== this._hovered) {
      this._hovered = trial;
      this._changed.emit();
    }
  }

  clear(): void {
    this.set([]);
  }

  private _changed = new Signal<this, void>(this);
  private _hovered: number | null = null;
  private _trials: ReadonlySet<number> = new Set();
}
