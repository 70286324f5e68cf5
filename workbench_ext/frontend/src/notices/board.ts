/** The notices on the screen. Law: each goes when its time is over, unless a person reads it. */

import { ISignal, Signal } from '@lumino/signaling';

export type Kind = 'success' | 'info' | 'warning' | 'error';

/** So many are shown at once: the newest. */
const MOST = 3;

export interface IAction {
  readonly label: string;
  readonly caption?: string;
  readonly callback: (event: MouseEvent) => void;
}

export interface IShown {
  readonly id: string;
  readonly kind: Kind;
  readonly message: string;
  readonly actions: readonly IAction[];
}

export class Board {
  get shown(): readonly IShown[] {
    return this._all.slice(0, MOST).map(({ notice }) => notice);
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  show(notice: IShown, forMs: number): void {
    this._all.unshift({ notice, left: forMs, since: 0 });
    this._run();
    this._changed.emit();
  }

  drop(id: string): void {
    const left = this._all.filter(({ notice }) => notice.id !== id);
    if (left.length < this._all.length) {
      this._all = left;
      // The pointer or the focus was on it: of an element that is removed, nothing tells that they left.
      this._isHeld = false;
      this._run();
      this._changed.emit();
    }
  }

  /** Let none go by itself while this is set: the pointer or the focus is on them. */
  set isHeld(isHeld: boolean) {
    this._isHeld = isHeld;
    this._run();
  }

  private _run(): void {
    clearTimeout(this._timer);
    const now = Date.now();
    for (const one of this._all) {
      one.left -= one.since ? now - one.since : 0;
      one.since = this._isHeld ? 0 : now;
    }
    const next = this._all.reduce((least, { left }) => Math.min(least, left), Infinity);
    if (!this._isHeld && next < Infinity) {
      this._timer = setTimeout(() => this._go(), Math.max(0, next));
    }
  }

  private _go(): void {
    const now = Date.now();
    this._all = this._all.filter(({ left, since }) => left > now - since);
    this._run();
    this._changed.emit();
  }

  /** left: milliseconds. since: when that was counted; 0 while they are held. */
  private _all: { readonly notice: IShown; left: number; since: number }[] = [];
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _isHeld = false;
  private _changed = new Signal<this, void>(this);
}
