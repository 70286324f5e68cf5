/** Requests to the engine. Law: the server's answer is shown in its own words; the page never anticipates it. */

import { TranslationBundle } from '@jupyterlab/translation';

import { Answer, IAnswer, IExperiment, IRequest, IStore } from './api';
import { Settings } from '../settings';
import { Stores } from '../stores/stores';
import { dismiss, refused, tell } from '../notices';

/** The fields of a request besides its kind. */
type Fields = Omit<IRequest, 'kind'>;

/** Milliseconds that a question waits for the bytes on disk. */
const COUNTED_MS = 2000;

interface IPlace {
  /** The id of a store. */
  readonly store: string;
}

/** A request that was sent to the engine of a store. */
export interface ISent extends IPlace {
  readonly request: string;
}

/** Whether the engine has done what it was asked for. */
export function isDone(answer: IAnswer | null): answer is Answer<'ask'> {
  return answer !== null && 'accepted' in answer;
}

export class Requests {
  constructor(
    private _stores: Stores,
    private _settings: Settings,
    private _trans: TranslationBundle
  ) {}

  /** Send a request to the engine of a store. Resolves with the answer, or null if it was refused: the user has seen
   * why. */
  async ask(store: string, kind: IRequest['kind'], fields: Fields = {}): Promise<IAnswer | null> {
    const answer = await this._post(store, kind, fields);
    if (answer !== null && !isDone(answer)) {
      tell('info', this._trans.__('The engine has not answered yet. Your request waits until it does.'));
    }
    this._refresh([{ store }]);
    return answer;
  }

  /** Ask the same for several experiments, one after the other. */
  async askEach(kind: IRequest['kind'], rows: readonly IExperiment[], fields: Fields = {}): Promise<void> {
    for (const { store, id } of rows) {
      if ((await this.ask(store, kind, { ...fields, experiment: id })) === null) {
        return;
      }
    }
  }

  /** Disk usage of these experiments together; null if a server does not report it, or not soon: in a large store it
   * has to look at many files. */
  async bytesOf(rows: readonly IExperiment[]): Promise<number | null> {
    const wanted = new Set(rows.map(({ id }) => id));
    const counted = Promise.all(
      [...new Set(rows.map(({ store }) => store))].map(store => this._stores.api.of(store).get<IStore>('store'))
    ).then(
      disks => {
        const found = disks.flatMap(({ experiments }) => experiments).filter(({ id }) => wanted.has(id));
        return found.length < wanted.size ? null : found.reduce((sum, one) => sum + one.bytes, 0);
      },
      () => null
    );
    return Promise.race([counted, new Promise<null>(resolve => setTimeout(() => resolve(null), COUNTED_MS))]);
  }

  /** Delete these experiments, after a delay in which it can be undone. `what`: their name, or how many. */
  async delete(rows: readonly IExperiment[], what: string): Promise<void> {
    const all = rows.map(({ store, id: experiment }) => ({ store, experiment }));
    await this._delete(all, what, this._trans._n('%2 is being deleted.', '%2 are being deleted.', rows.length, what));
  }

  /** Delete the files of these trials in the same way. `what`: their names. */
  async deleteTrials({ store, id: experiment }: IExperiment, trials: readonly number[], what: string): Promise<void> {
    const said = this._trans.__('The files of %1 are being deleted.', what);
    await this._delete(
      trials.map(trial => ({ store, experiment, trial })),
      what,
      said
    );
  }

  /** One notice undoes all. It comes with the first answer, and all have the same time: of many, the first would
   * be deleted while the last are sent. */
  private async _delete(all: readonly (Fields & IPlace)[], what: string, said: string): Promise<void> {
    // By no clock: that of the server may be another.
    const until = performance.now() + 1000 * this._settings.value.undoSeconds;
    const left = () => Math.max(0, until - performance.now());
    const waiting: ISent[] = [];
    let notice: string | null = null;
    let isUndone = false;
    const undo = () => {
      isUndone = true;
      void this.withdraw(waiting, what, all.length);
    };
    for (const [at, { store, ...fields }] of all.entries()) {
      if (isUndone) {
        break;
      }
      const answer = await this._post(store, 'delete', { ...fields, undo_s: left() / 1000 });
      if (answer === null) {
        if (at > 0) {
          tell('warning', this._trans.__('%1 of %2 are being deleted: one was refused.', at, all.length));
        }
        break;
      }
      if (isDone(answer)) {
        continue;
      }
      if (isUndone) {
        // It was sent before the user undid it.
        await this._withdraw([{ store, request: answer.request }]);
        break;
      }
      waiting.push({ store, request: answer.request });
      if (notice === null && left() > 0) {
        const shown = (notice = tell('warning', said, {
          forMs: left(),
          actions: [{ label: this._trans.__('Undo'), callback: undo }]
        }));
        // Afterwards undoing is no longer possible: the notification centre does not keep its button.
        setTimeout(() => dismiss(shown), left());
      }
    }
    this._refresh(all);
  }

  /** Withdraw requests that the engine has not acted on, and tell what stays. `count`: how many that is. */
  async withdraw(sent: readonly ISent[], what: string, count = sent.length): Promise<void> {
    if (await this._withdraw(sent)) {
      tell('success', this._trans._n('%2 stays.', '%2 stay.', count, what));
    }
  }

  /** Whether all could be withdrawn. All are tried: one that the engine has acted on must not cost the others. */
  private async _withdraw(sent: readonly ISent[]): Promise<boolean> {
    const done = await Promise.allSettled(
      sent.map(({ store, request }) => this._stores.api.of(store).remove(`requests/${encodeURIComponent(request)}`))
    );
    const failed = done.filter(one => one.status === 'rejected');
    if (failed.length > 0) {
      refused(failed[0]!.reason);
      if (sent.length > 1) {
        tell('warning', this._trans.__('%1 of %2 could not be undone.', failed.length, sent.length));
      }
    }
    this._refresh(sent);
    return failed.length === 0;
  }

  private async _post(store: string, kind: IRequest['kind'], fields: Fields): Promise<IAnswer | null> {
    try {
      const request: IRequest = { kind, ...fields };
      return await this._stores.api.of(store).post<IAnswer>('requests', request);
    } catch (error) {
      refused(error);
      return null;
    }
  }

  private _refresh(places: readonly IPlace[]): void {
    for (const store of new Set(places.map(place => place.store))) {
      void this._stores.get(store)?.experiments.refresh();
    }
  }
}
