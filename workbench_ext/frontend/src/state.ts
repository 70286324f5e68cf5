/** Small choices of the user, kept with the workspace. Law: reading is instant; writes are batched. */

import { IStateDB } from '@jupyterlab/statedb';
import { Debouncer } from '@lumino/polling';
import { ReadonlyPartialJSONObject, ReadonlyPartialJSONValue } from '@lumino/coreutils';

/** Milliseconds for which writes are batched. */
const GATHERED = 300;

export class ViewState {
  /** `id` names what the choices belong to. Without a database they last as long as the page. */
  constructor(
    private _database: IStateDB | null,
    private _id: string
  ) {
    this._save = new Debouncer(() => this._database?.save(this._id, this._values), GATHERED);
  }

  /** Resolves when the kept state has been read. */
  async load(): Promise<this> {
    const kept = await this._database?.fetch(this._id).catch(() => undefined);
    if (typeof kept === 'object' && kept !== null && !Array.isArray(kept)) {
      this._values = { ...(kept as ReadonlyPartialJSONObject), ...this._values };
    }
    return this;
  }

  get<T extends ReadonlyPartialJSONValue>(key: string, otherwise: T): T {
    return (this._values[key] as T | undefined) ?? otherwise;
  }

  set(key: string, value: ReadonlyPartialJSONValue): void {
    this._values = { ...this._values, [key]: value };
    this._save.invoke().catch(() => undefined);
  }

  private _save: Debouncer;
  private _values: ReadonlyPartialJSONObject = {};
}
