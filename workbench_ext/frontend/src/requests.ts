/** Asking the engine for something. Law: what the server says is shown in its own words; nothing is hoped for. */

import { Notification } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';

import { Api, IAnswer } from './api';
import { ExperimentsModel } from './experiments';
import { Settings } from './settings';

/** Milliseconds that a word of success stays. */
const BRIEFLY = 5000;

export class Requests {
  constructor(
    readonly api: Api,
    private _experiments: ExperimentsModel,
    private _settings: Settings,
    private _trans: TranslationBundle
  ) {}

  /** Ask. Resolves with the answer, or null where the server refused: the person has been told why. */
  async ask(kind: string, fields: object = {}): Promise<IAnswer | null> {
    try {
      const answer = await this.api.post<IAnswer>('requests', { kind, ...fields });
      if (answer.state === 'waiting' && kind !== 'delete') {
        Notification.info(
          this._trans.__('The engine has not answered yet. What you asked for waits until it does.'),
          { autoClose: BRIEFLY }
        );
      }
      return answer;
    } catch (error) {
      refused(error);
      return null;
    } finally {
      void this._experiments.refresh();
    }
  }

  /** Ask the same for several experiments, one after the other. */
  async askEach(kind: string, experiments: readonly string[], fields: object = {}): Promise<void> {
    for (const experiment of experiments) {
      if ((await this.ask(kind, { ...fields, experiment })) === null) {
        return;
      }
    }
  }

  /** Delete, after a pause in which it can be taken back. */
  async delete(experiment: string, label: string): Promise<void> {
    const undo = 1000 * this._settings.value.undoSeconds;
    const not_before = new Date(Date.now() + undo).toISOString();
    const answer = await this.ask('delete', { experiment, not_before });
    if (answer === null) {
      return;
    }
    const left = answer.until ? Date.parse(answer.until) - Date.now() : 0;
    if (!(left > 0)) {
      return;
    }
    const id = Notification.warning(this._trans.__('%1 is being deleted.', label), {
      autoClose: left,
      actions: [
        {
          label: this._trans.__('Undo'),
          callback: () => void this.withdraw(answer.request, label)
        }
      ]
    });
    // Afterwards the button would promise what cannot be done any more.
    setTimeout(() => Notification.dismiss(id), left);
  }

  /** Take a request back that the engine has not acted on. */
  async withdraw(request: string, label: string): Promise<void> {
    try {
      await this.api.remove(`requests/${encodeURIComponent(request)}`);
      Notification.success(this._trans.__('%1 stays.', label), { autoClose: BRIEFLY });
    } catch (error) {
      refused(error);
    }
    await this._experiments.refresh();
  }
}

/** Say why something was not done. */
export function refused(error: unknown): void {
  Notification.error(error instanceof Error ? error.message : String(error), { autoClose: false });
}
