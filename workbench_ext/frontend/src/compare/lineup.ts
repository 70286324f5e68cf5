/** The trials of a comparison of three or more, of one experiment or of several. Law: it does not depend on the DOM;
 * each experiment is followed once, and only while the page is visible. */

import { ISignal, Signal } from '@lumino/signaling';

import { ExperimentModel } from '../experiment/experiment';
import { Api, ApiError, IExperimentAnswer, experimentPath } from '../server/api';
import { Live } from '../server/live';

/** One side of the comparison. */
export interface IMember {
  /** As the user named it: `digits@2/t0007`, or `digits@2` for its best trial. */
  readonly given: string;
  /** The trial as `digits@2/t0007`. */
  readonly ref: string;
  readonly experiment: ExperimentModel;
  readonly number: number;
}

export class Lineup {
  constructor(
    private _api: Api,
    private _live: Live,
    readonly refs: readonly string[]
  ) {
    void this._load();
  }

  /** It was loaded, could not be, or one of its experiments has changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** In the order in which they were named; null until the server answered. */
  get members(): readonly IMember[] | null {
    return this._members;
  }

  /** Each experiment once. */
  get experiments(): readonly ExperimentModel[] {
    return this._experiments;
  }

  /** Why there are no members, in the server's words. */
  get error(): string | null {
    return this._error;
  }

  /** Whether the page is visible. */
  set watched(watched: boolean) {
    this._watched = watched;
    for (const experiment of this._experiments) {
      experiment.watched = watched;
    }
  }

  dispose(): void {
    this._disposed = true;
    this._experiments.forEach(experiment => experiment.dispose());
    Signal.clearData(this);
  }

  private async _load(): Promise<void> {
    try {
      const named = this.refs.map(parted);
      const names = [...new Set(named.map(({ name }) => name))];
      const rows = new Map(
        await Promise.all(
          names.map(async name => {
            const { experiment } = await this._api.get<IExperimentAnswer>(experimentPath(name));
            return [name, experiment] as const;
          })
        )
      );
      if (this._disposed) {
        return;
      }
      const models = new Map<string, ExperimentModel>();
      this._members = named.map(({ given, name, trial }) => {
        const row = rows.get(name)!;
        const number = trial ?? row.best?.number ?? null;
        if (number === null) {
          throw new ApiError(404, `${row.label}: no trial has a value yet. Name one of its trials.`, 'refs');
        }
        if (number >= row.trials.of) {
          throw new ApiError(404, `${given}: ${row.label} has ${row.trials.of} trials, from t0000 on.`, 'refs');
        }
        const experiment = models.get(row.id) ?? new ExperimentModel(this._api, row.id, this._live);
        models.set(row.id, experiment);
        return { given, ref: `${row.label}/t${String(number).padStart(4, '0')}`, experiment, number };
      });
      this._experiments = [...models.values()];
      for (const experiment of this._experiments) {
        experiment.changed.connect(() => this._changed.emit());
        experiment.watched = this._watched;
      }
    } catch (error) {
      this._members = null;
      this._error = error instanceof Error ? error.message : String(error);
    }
    if (!this._disposed) {
      this._changed.emit();
    }
  }

  private _changed = new Signal<this, void>(this);
  private _disposed = false;
  private _error: string | null = null;
  private _experiments: readonly ExperimentModel[] = [];
  private _members: readonly IMember[] | null = null;
  private _watched = false;
}

/** `digits@2/t0007:27` in its parts. A step means nothing where whole curves are shown. Throws an ApiError. */
export function parted(given: string): { given: string; name: string; trial: number | null } {
  const [name, trial] = given.trim().split('/') as [string, string | undefined];
  const number = /^t?(\d+)(:\d+)?$/.exec(trial ?? '');
  if (trial && number === null) {
    throw new ApiError(400, `${given}: ${trial} names no trial. Name one as t0007.`, 'refs');
  }
  return { given, name, trial: number ? Number(number[1]) : null };
}
