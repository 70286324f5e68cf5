/** Data that grows with an experiment, fetched by a cursor. Law: one query at a time; none while the page is hidden. */

import { ISignal, Signal } from '@lumino/signaling';

import { ApiError, ILeg, IMeasured, IMeasures, ITimeline, experimentPath } from '../server/api';
import { ExperimentModel, IChanged } from './experiment';
import { Rungs } from '../ladder/ladder';
import { ILadder, ILadderAnswer } from '../ladder/data';

/** Fetches again each time its experiment may have grown. */
abstract class Follower {
  constructor(protected readonly experiment: ExperimentModel) {
    experiment.changed.connect(this._told, this);
    // Later, when the fields of the subclass are initialised.
    void Promise.resolve().then(() => this._ask());
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Why the server did not answer the last time; null if it did. */
  get error(): ApiError | null {
    return this._error;
  }

  /** Fetch what is new. Returns whether something was. */
  protected abstract fetch(): Promise<boolean>;

  private _told(_: ExperimentModel, { ladder }: IChanged): void {
    if (ladder) {
      void this._ask();
    }
  }

  private async _ask(): Promise<void> {
    if (this._asking) {
      this._again = true;
      return;
    }
    this._asking = true;
    do {
      this._again = false;
      const before = this._error;
      let grew = false;
      try {
        grew = await this.fetch();
        this._error = null;
      } catch (error) {
        this._error = error instanceof ApiError ? error : new ApiError(0, String(error));
      }
      if (grew || before !== this._error) {
        this._changed.emit();
      }
    } while (this._again);
    this._asking = false;
  }

  private _again = false;
  private _asking = false;
  private _changed = new Signal<this, void>(this);
  private _error: ApiError | null = null;
}

/** The ladder of one experiment. */
export class LadderModel extends Follower {
  /** Null until the server answered once. */
  get ladder(): ILadder | null {
    return this._ladder;
  }

  protected async fetch(): Promise<boolean> {
    const { api, ref } = this.experiment;
    const before = this._rungs.n;
    const path = experimentPath(ref, 'ladder');
    const { ladder } = await api.get<ILadderAnswer>(path, { after: before });
    if (this._ladder !== null && ladder.n === before) {
      return false;
    }
    this._ladder = this._rungs.take(ladder);
    return true;
  }

  private _ladder: ILadder | null = null;
  private readonly _rungs = new Rungs();
}

/** The legs of one experiment, by trial and attempt. */
export class LegsModel extends Follower {
  /** In the order of their first appearance. */
  get legs(): readonly ILeg[] {
    return this._list;
  }

  /** The leg with which a trial reached, or will reach, a step. */
  to(trial: number, step: number): ILeg | null {
    const legs = this._byTrial.get(trial) ?? [];
    return legs.filter(({ start, until }) => start < step && step <= until).pop() ?? null;
  }

  /** The slot of a leg, counted from 1; null before it has one. */
  slot({ slot, worker }: ILeg): number | null {
    const at = this._slots.indexOf(String(slot ?? worker));
    return at < 0 ? null : at + 1;
  }

  /** The slots of known legs, in a stable order. */
  get slots(): readonly string[] {
    return this._slots;
  }

  protected async fetch(): Promise<boolean> {
    const { api, ref } = this.experiment;
    const path = experimentPath(ref, 'timeline');
    const { cursor, legs } = await api.get<ITimeline>(path, { after: this._cursor });
    this._cursor = cursor;
    for (const leg of legs) {
      this._legs.set(`${leg.trial} ${leg.attempt}`, leg);
    }
    if (legs.length === 0) {
      return false;
    }
    this._list = [...this._legs.values()];
    const named = this._list.filter(({ slot, worker }) => slot !== null || worker !== null);
    this._slots = [...new Set(named.map(({ slot, worker }) => String(slot ?? worker)))];
    this._byTrial = new Map();
    for (const leg of [...this._list].sort((a, b) => a.attempt - b.attempt)) {
      const known = this._byTrial.get(leg.trial);
      if (known) {
        known.push(leg);
      } else {
        this._byTrial.set(leg.trial, [leg]);
      }
    }
    return true;
  }

  private _byTrial = new Map<number, ILeg[]>();
  private _cursor = 0;
  private _legs = new Map<string, ILeg>();
  private _list: readonly ILeg[] = [];
  private _slots: readonly string[] = [];
}

/** What was measured of each trial: every metric, durations, sizes, slots. */
export class MeasuresModel extends Follower {
  /** By trial; a new map whenever something in it changed. */
  get measured(): ReadonlyMap<number, IMeasured> {
    return this._measured;
  }

  protected async fetch(): Promise<boolean> {
    const { api, ref } = this.experiment;
    const path = experimentPath(ref, 'measures');
    const { cursor, trials } = await api.get<IMeasures>(path, { after: this._cursor });
    this._cursor = cursor;
    if (trials.length === 0) {
      return false;
    }
    this._measured = new Map([...this._measured, ...trials.map(one => [one.trial, one] as const)]);
    return true;
  }

  private _cursor = 0;
  private _measured: ReadonlyMap<number, IMeasured> = new Map();
}

const ladders = new WeakMap<ExperimentModel, LadderModel>();
const measurements = new WeakMap<ExperimentModel, MeasuresModel>();
const timelines = new WeakMap<ExperimentModel, LegsModel>();

/** The ladder of an open experiment, shared by all views. */
export function ladderOf(experiment: ExperimentModel): LadderModel {
  return made(ladders, experiment, () => new LadderModel(experiment));
}

/** What was measured of the trials of an open experiment, shared by all views that need it. */
export function measurementsOf(experiment: ExperimentModel): MeasuresModel {
  return made(measurements, experiment, () => new MeasuresModel(experiment));
}

/** The legs of an open experiment, shared by all views. */
export function legsOf(experiment: ExperimentModel): LegsModel {
  return made(timelines, experiment, () => new LegsModel(experiment));
}

function made<K extends object, V>(map: WeakMap<K, V>, key: K, make: () => V): V {
  const found = map.get(key) ?? make();
  map.set(key, found);
  return found;
}
