/** Requests to the engine. Law: the server's answer is shown in its own words; the page never anticipates it. */

import { TranslationBundle } from '@jupyterlab/translation';

import { Answer, IAnswer, IExperiment, IRequest, IStore } from './api';
import { Settings } from '../settings';
import { Stores } from '../stores/stores';
import { dismiss, refused, tell } from '../notices';

/** The fields of a request besides its kind. */
type Fields = Omit<IRequest, 'kind'>;

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
    const { api } = this._stores;
    try {
      const request: IRequest = { kind, ...fields };
      const answer = await api.of(store).post<IAnswer>('requests', request);
      if (!isDone(answer) && kind !== 'delete') {
        tell('info', this._trans.__('The engine has not answered yet. Your request waits until it does.'));
      }
      return answer;
    } catch (error) {
      refused(error);
      return null;
    } finally {
      void this._stores.get(store)?.experiments.refresh();
    }
  }

  /** Ask the same for several experiments, one after the other. */
  async askEach(kind: IRequest['kind'], rows: readonly IExperiment[], fields: Fields = {}): Promise<void> {
    for (const { store, id } of rows) {
      if ((await this.ask(store, kind, { ...fields, experiment: id })) === null) {
        return;
      }
    }
  }

  /** An experiment's disk usage; null if the server does not report it. */
  async bytesOf({ store, id }: IExperiment): Promise<number | null> {
    const disk = await this._stores.api
      .of(store)
      .get<IStore>('store')
      .catch(() => null);
    return disk?.experiments.find(one => one.id === id)?.bytes ?? null;
  }

  /** Delete, after a delay in which it can be undone. */
  async delete({ store, id: experiment, label }: IExperiment): Promise<void> {
    await this._delete(store, [{ experiment }], label, this._trans.__('%1 is being deleted.', label));
  }

  /** Delete the files of these trials in the same way. `what`: their names. */
  async deleteTrials({ store, id: experiment }: IExperiment, trials: readonly number[], what: string): Promise<void> {
    const said = this._trans.__('The files of %1 are being deleted.', what);
    await this._delete(
      store,
      trials.map(trial => ({ experiment, trial })),
      what,
      said
    );
  }

  private async _delete(store: string, all: readonly Fields[], label: string, said: string): Promise<void> {
    const undo_s = this._settings.value.undoSeconds;
    // By no clock: that of the server may be another.
    const until = performance.now() + 1000 * undo_s;
    const waiting: string[] = [];
    for (const fields of all) {
      const answer = await this.ask(store, 'delete', { ...fields, undo_s });
      if (answer === null) {
        break;
      }
      if (!isDone(answer)) {
        waiting.push(answer.request);
      }
    }
    const left = until - performance.now();
    if (waiting.length === 0 || left <= 0) {
      return;
    }
    const shown = tell('warning', said, {
      forMs: left,
      actions: [{ label: this._trans.__('Undo'), callback: () => void this.withdraw(store, waiting, label) }]
    });
    // Afterwards undoing is no longer possible: the notification centre does not keep its button.
    setTimeout(() => dismiss(shown), left);
  }

  /** Withdraw requests that the engine has not acted on. */
  async withdraw(store: string, requests: readonly string[], label: string): Promise<void> {
    try {
      for (const request of requests) {
        await this._stores.api.of(store).remove(`requests/${encodeURIComponent(request)}`);
      }
      tell('success', this._trans.__('%1 stays.', label));
    } catch (error) {
      refused(error);
    }
    await this._stores.get(store)?.experiments.refresh();
  }
}
