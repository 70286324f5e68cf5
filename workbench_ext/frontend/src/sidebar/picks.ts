/** Which rows of a list are selected, and which one has the keyboard focus. Law: it does not depend on the DOM; ids
 * only. */

import { ISignal, Signal } from '@lumino/signaling';

export interface IModifiers {
  /** Ctrl, or Cmd: this one too. */
  readonly also?: boolean;
  /** Shift: all from the last selected one. */
  readonly through?: boolean;
}

export class Picks {
  /** The shown rows, in order. Rows that are gone are deselected. */
  set rows(rows: readonly string[]) {
    if (rows.length === this._rows.length && rows.every((row, at) => row === this._rows[at])) {
      return;
    }
    const there = new Set(rows);
    const lost = [...this._picked].some(row => !there.has(row));
    this._rows = rows;
    if (lost) {
      this._picked = new Set([...this._picked].filter(row => there.has(row)));
    }
    if (this._active !== null && !there.has(this._active)) {
      this._active = null;
    }
    if (this._anchor !== null && !there.has(this._anchor)) {
      this._anchor = null;
    }
    if (lost) {
      this._changed.emit();
    }
  }

  get rows(): readonly string[] {
    return this._rows;
  }

  get picked(): ReadonlySet<string> {
    return this._picked;
  }

  /** The row with the keyboard focus: the one in the tab order. */
  get active(): string | null {
    return this._active ?? this._rows[0] ?? null;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** A click, with its modifier keys. */
  pick(row: string, { also, through }: IModifiers = {}): void {
    if (through && this._anchor !== null) {
      this._set(new Set([...(also ? this._picked : []), ...this._between(this._anchor, row)]), row);
    } else if (also) {
      const next = new Set(this._picked);
      if (!next.delete(row)) {
        next.add(row);
      }
      this._anchor = row;
      this._set(next, row);
    } else {
      this._anchor = row;
      this._set(new Set([row]), row);
    }
  }

  /** A menu is opened on a row: select only this row, unless it is already selected. */
  pickForMenu(row: string): void {
    if (this._picked.has(row)) {
      this._set(this._picked, row);
    } else {
      this.pick(row);
    }
  }

  /** Handle a list's usual keys. Returns whether the key was handled. */
  press(key: string, { also, through }: IModifiers = {}): boolean {
    const last = this._rows.length - 1;
    if (last < 0) {
      return false;
    }
    const at = this._rows.indexOf(this.active!);
    const to: Readonly<Record<string, number>> = {
      ArrowDown: Math.min(at + 1, last),
      ArrowUp: Math.max(at - 1, 0),
      Home: 0,
      End: last
    };
    const next = to[key];
    if (next !== undefined) {
      const row = this._rows[next]!;
      if (through) {
        this._anchor ??= this.active;
        this._set(new Set(this._between(this._anchor!, row)), row);
      } else if (also) {
        this._set(this._picked, row);
      } else {
        this.pick(row);
      }
      return true;
    }
    if (key === ' ') {
      this.pick(this.active!, { also: true });
      return true;
    }
    if (key === 'a' && also) {
      this._set(new Set(this._rows), this.active!);
      return true;
    }
    if (key === 'Escape' && this._picked.size > 0) {
      this.clear();
      return true;
    }
    return false;
  }

  clear(): void {
    this._anchor = null;
    this._picked = new Set();
    this._changed.emit();
  }

  private _between(from: string, to: string): readonly string[] {
    const [a, b] = [this._rows.indexOf(from), this._rows.indexOf(to)];
    return this._rows.slice(Math.min(a, b), Math.max(a, b) + 1);
  }

  private _set(picked: ReadonlySet<string>, active: string): void {
    this._picked = picked;
    this._active = active;
    this._changed.emit();
  }

  private _active: string | null = null;
  private _anchor: string | null = null;
  private _changed = new Signal<this, void>(this);
  private _picked: ReadonlySet<string> = new Set();
  private _rows: readonly string[] = [];
}
