/** What happened to an experiment since the user last looked. Law: by the journal's numbers, not by clocks. */

import { TranslationBundle } from '@jupyterlab/translation';
import { ISignal, Signal } from '@lumino/signaling';
import { Throttler } from '@lumino/polling';

import { experimentPath } from '../server/api';
import { ExperimentModel, IChanged } from './experiment';
import { ILadderAnswer, ISince } from '../ladder/data';
import { ViewState } from '../state';
import { shown } from '../numbers';
import { clock, stateWord } from '../words';

/** Milliseconds out of sight that count as an absence. */
const ABSENCE = 60000;

/** Milliseconds between two queries for the journal's length, while the page is visible. */
const FOLLOWING = 5000;

/** Where in `ViewState` the last seen line of the journal is kept. */
const SEEN = 'seen';

export class Since {
  constructor(
    private _experiment: ExperimentModel,
    private _state: ViewState
  ) {
    this._following = new Throttler(() => this._follow(), { limit: FOLLOWING, edge: 'trailing' });
    _experiment.changed.connect(this._heard, this);
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** What happened during the last absence; null if nothing notable. */
  get happened(): ISince | null {
    return this._happened;
  }

  /** The page becomes visible (again). */
  look(now = Date.now()): void {
    this._looking = true;
    if (this._left === null || now - this._left >= ABSENCE) {
      this._left = now;
      void this._read();
    }
  }

  /** The page is hidden. */
  leave(now = Date.now()): void {
    if (this._looking) {
      this._looking = false;
      this._left = now;
    }
  }

  /** The user has read it. */
  dismiss(): void {
    this._happened = null;
    this._changed.emit();
  }

  dispose(): void {
    this._experiment.changed.disconnect(this._heard, this);
    this._following.dispose();
    Signal.clearData(this);
  }

  private _heard(_: ExperimentModel, { ladder }: IChanged): void {
    if (ladder && this._looking && this._n !== null) {
      void this._following.invoke();
    }
  }

  /** Fetch what happened: at the start, and after an absence. */
  private async _read(): Promise<void> {
    const seen = this._state.get<number | null>(SEEN, null);
    try {
      const { ladder, since } = await this._ask(seen ?? 0);
      this._happened = seen === null ? null : worthSaying(since);
      this._see(ladder.n);
      this._changed.emit();
    } catch {
      // The page already says that the server does not answer; the next time, fetch again.
      this._left = null;
    }
  }

  /** Note the journal's length: the user has seen what is on the screen. */
  private async _follow(): Promise<void> {
    if (!this._looking || document.hidden || this._n === null) {
      return;
    }
    try {
      this._see((await this._ask(this._n)).ladder.n);
    } catch {
      // As above.
    }
  }

  private _ask(after: number): Promise<ILadderAnswer> {
    const { api, ref } = this._experiment;
    return api.get<ILadderAnswer>(experimentPath(ref, 'ladder'), { after });
  }

  private _see(n: number): void {
    if (n !== this._n) {
      this._n = n;
      this._state.set(SEEN, n);
    }
  }

  private _changed = new Signal<this, void>(this);
  private _following: Throttler;
  private _happened: ISince | null = null;
  private _left: number | null = null;
  private _looking = false;
  private _n: number | null = null;
}

function worthSaying(happened: ISince): ISince | null {
  const { retries, failures, best, ended } = happened;
  return retries || failures || best || ended ? happened : null;
}

/** `2 retries, best 0.971 → 0.978, completed 14:05` */
export function sinceWords(happened: ISince, trans: TranslationBundle, now = new Date()): string {
  const { retries, failures, best, ended } = happened;
  const said: string[] = [];
  if (retries) {
    said.push(trans._n('%1 retry', '%1 retries', retries, retries));
  }
  if (failures) {
    said.push(trans._n('%1 failure', '%1 failures', failures, failures));
  }
  if (best) {
    said.push(
      best.first === null
        ? trans.__('best %1', shown(best.last))
        : trans.__('best %1 → %2', shown(best.first), shown(best.last))
    );
  }
  if (ended) {
    said.push(`${stateWord(ended.state, trans)} ${clock(ended.at, now)}`);
  }
  return said.join(', ');
}
