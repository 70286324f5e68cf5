/** The place of the pointer on the x axis that several pictures share. Law: it knows no picture. */

import { ISignal, Signal } from '@lumino/signaling';

export class Pointer {
  /** In units of x; null while the pointer is on none of the pictures. */
  get at(): number | null {
    return this._at;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  move(at: number | null): void {
    if (at !== this._at) {
      this._at = at;
      this._changed.emit();
    }
  }

  private _at: number | null = null;
  private _changed = new Signal<this, void>(this);
}
