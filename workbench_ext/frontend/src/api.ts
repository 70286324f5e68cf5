/** What the server says. Law: the only file that fetches; answers are data, and every text in them is only text. */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

export type State =
  | 'waiting'
  | 'running'
  | 'paused'
  | 'stopping'
  | 'completed'
  | 'stopped'
  | 'failed'
  | 'unreadable';

/** States in which nothing happens any more. */
export const ENDED: ReadonlySet<string> = new Set(['completed', 'stopped', 'failed']);

/** JSON has no NaN and no infinity: the server writes those as words. */
export type Value = number | 'nan' | 'inf' | '-inf';

export interface IGoal {
  readonly metric: string;
  readonly mode: 'max' | 'min';
}

export interface IBest {
  readonly value: Value;
  /** `t0007` */
  readonly trial: string;
  readonly number?: number;
}

/** Which experiment is meant: a copy of a store holds experiments of the same ids. */
export interface IRef {
  readonly experiment: string;
  /** The id of its store. */
  readonly store: string;
}

/** A store that the server shows. */
export interface IStoreInfo {
  readonly id: string;
  /** Beside whose notebooks it lies, from the server's folder on; empty for that folder itself. */
  readonly folder: string;
  readonly root: string;
  readonly exists: boolean;
  readonly readonly: boolean;
  /** Whether this person made or adopted it; in others nothing runs. */
  readonly ours: boolean;
  readonly why: string;
  readonly engine: IEngine;
  readonly experiments: number;
  readonly under_way: number;
}

export interface IExperiment {
  readonly id: string;
  /** The id of its store, which whoever asked for it adds. */
  readonly store: string;
  /** `digits@2` */
  readonly label: string;
  readonly name?: string;
  readonly version?: number;
  readonly state: State;
  readonly reason: string | null;
  /** UTC, ISO 8601. */
  readonly created: string;
  readonly started?: string | null;
  readonly ended?: string | null;
  readonly goal: IGoal | null;
  readonly best: IBest | null;
  /** Trials that have ended and that have begun so far, and how many are planned where that is known. */
  readonly trials: {
    readonly ended: number;
    readonly begun: number;
    readonly planned: number | null;
  };
  /** Trials by state. */
  readonly counts?: Readonly<Record<string, number>>;
  /** What is not as it should be, in the server's words; each may be empty. */
  readonly outcome?: IOutcome;
  /** Share of the work that is done, 0 to 1, where the plan is known. */
  readonly progress: number | null;
  readonly tags?: readonly string[];
  readonly note?: string;
  readonly notebook?: string | null;
  /** Best values so far, oldest first, at most 30. */
  readonly sparkline?: readonly Value[];
  readonly seconds_left?: number | null;
  readonly slots?: { readonly used: number; readonly given: number } | null;
  /** The request that will delete it, while that can be withdrawn. */
  readonly deleting?: string | null;
  readonly pinned?: boolean;
  readonly lineage?: { readonly parent: string } | null;
  /** What keeps it, the copies of its checkpoints or its mirrors waiting. */
  readonly troubles?: readonly ITrouble[];
}

export interface IOutcome {
  /** `4 failed (ZeroDivisionError: division by zero)` */
  readonly failed?: string;
  /** That all promoted trials failed, and so which of the others is the best. */
  readonly promoted?: string;
  /** That curves were lost, and how many of their points were put back. */
  readonly lost?: string;
  /** `resumed inexactly: it, bar (3 trials)` */
  readonly inexact?: string;
  /** `resume checked: identical` */
  readonly checked?: string;
}

export interface ITrouble {
  /** No room on the disk (or of the quota), or a storage or a mirror that is not reached. */
  readonly kind: 'room' | 'storage' | 'mirror';
  readonly words: string;
}

export interface IExperiments {
  readonly experiments: readonly IExperiment[];
}

/** What a search space, a program and a scheduler look like in a spec; read with care, as older specs hold less. */
export type Spec = Readonly<Record<string, unknown>>;

export interface IExperimentAnswer {
  readonly experiment: IExperiment;
  readonly meta: Readonly<Record<string, unknown>>;
  readonly spec: Spec;
}

export interface ITrial {
  readonly number: number;
  /** `t0007` */
  readonly label: string;
  readonly configuration: Readonly<Record<string, unknown>>;
  readonly bracket: number | null;
  readonly state: State;
  readonly reason: string | null;
  readonly level: number | null;
  readonly step: number | null;
  readonly value: Value | null;
  readonly best: Value | null;
  readonly attempt: number;
  readonly restarts: number;
  readonly started: string | null;
  readonly ended: string | null;
  readonly error?: string | null;
  /** What it has lost by resuming. */
  readonly inexact?: readonly { readonly name: string; readonly reason: string }[] | null;
}

export interface ITrials {
  readonly cursor: number;
  readonly trials: readonly ITrial[];
}

export interface IPoints {
  readonly cursor: number;
  readonly columns: readonly string[];
  readonly points: readonly (readonly (number | string | null)[])[];
}

export interface IMetrics {
  readonly metrics: readonly {
    readonly name: string;
    readonly goal: boolean;
    readonly points?: number;
  }[];
}

export interface ICurve {
  readonly trial: number;
  readonly x: readonly number[];
  readonly y: readonly Value[];
  /** Whether points were left out; minima, maxima and both ends are kept. */
  readonly thinned: boolean;
  /** How many points there are in truth. */
  readonly points: number;
}

export interface ICurves {
  readonly cursor: number;
  readonly x: 'step' | 'time';
  /** Whether these are a sample, given at once; ask again for all. */
  readonly draft?: boolean;
  readonly curves: readonly ICurve[];
}

export interface ILeg {
  readonly trial: number;
  readonly label: string;
  readonly attempt: number;
  readonly worker: string | null;
  readonly slot: number | string | null;
  readonly start: number;
  readonly until: number;
  readonly began_s: number | null;
  readonly left_s: number | null;
  readonly started: string | null;
  readonly ended: string | null;
  readonly outcome: string | null;
  readonly reason: string | null;
  readonly checkpoint: number | null;
  readonly pid: number | null;
}

export interface ITimeline {
  readonly cursor: number;
  readonly legs: readonly ILeg[];
}

export interface IImportance {
  readonly method: string;
  readonly trials: number;
  /** R² on held-out trials, 1 at best. */
  readonly quality: number;
  readonly values: readonly {
    readonly name: string;
    readonly importance: number;
    readonly std: number | null;
  }[];
}

export interface ICheckpoint {
  readonly step: number;
  readonly attempt: number;
  readonly bytes: number;
  readonly at: string;
  readonly sound: boolean;
  readonly why: string | null;
  readonly holds: readonly string[];
  readonly pinned: boolean;
}

export interface ITrialFile {
  readonly name: string;
  /** What it shows, without its step: files of one title belong together. */
  readonly title?: string;
  readonly step: number | null;
  readonly kind: 'image' | 'figure' | 'text' | 'audio' | 'other';
  readonly bytes: number;
}

/** A file, or a folder with many that were read; only its name while its digest is not made yet. */
export interface IDataFile {
  readonly size?: number;
  readonly modified?: string;
  readonly digest?: string;
  readonly files?: number;
  readonly rows?: number;
  /** The digest is of samples: the file is large. */
  readonly sampled?: boolean;
}

export interface ITrialAnswer {
  readonly trial: ITrial;
  readonly legs: readonly ILeg[];
  readonly found: {
    readonly objects: unknown;
    readonly names: unknown;
    readonly left_out: unknown;
  } | null;
  readonly environment: Readonly<Record<string, unknown>> | null;
  /** What the training code named, and what it was seen to read: never all that it may have read. */
  readonly data: {
    readonly named: Readonly<Record<string, IDataFile>>;
    readonly seen: {
      readonly files: Readonly<Record<string, IDataFile>>;
      /** How many more there were. */
      readonly beyond: number;
    } | null;
  };
  readonly checkpoints: readonly ICheckpoint[];
  readonly restarts: readonly {
    readonly attempt: number;
    readonly at: string;
    readonly cause: string | null;
    readonly reason: string | null;
    readonly step: number | null;
  }[];
  readonly files: readonly ITrialFile[];
  readonly seeds: Readonly<Record<string, unknown>> | null;
  readonly verify: Readonly<Record<string, unknown>> | null;
  readonly lineage: unknown;
  /** What it has lost by resuming, and why; empty where nothing. */
  readonly inexact?: string;
}

export interface ILog {
  /** Where this text starts, in bytes. */
  readonly offset: number;
  readonly next: number;
  readonly size: number;
  /** Whole lines. */
  readonly text: string;
  /** The last line as far as it is printed; it comes again in a text when it is whole. */
  readonly line?: string;
}

export interface ISnapshot {
  readonly digest: string;
  readonly cells: readonly {
    readonly n: number;
    readonly source: string;
    readonly cell_id: string | null;
    readonly hash?: string;
  }[];
  readonly train_cell: number | string | null;
  readonly environment: Readonly<Record<string, unknown>> | null;
  readonly data: readonly unknown[];
  readonly notebook: boolean;
  readonly document: { readonly at: string; readonly unsaved: boolean } | null;
  readonly git: Readonly<Record<string, unknown>> | null;
}

/** `" "` same, `"-"` only in the first, `"+"` only in the second. */
export type DiffLine = readonly [' ' | '-' | '+', string];

export interface IComparisonSection {
  readonly kind:
    | 'data'
    | 'configuration'
    | 'code'
    | 'architecture'
    | 'libraries'
    | 'environment'
    | 'hardware'
    | 'seeds'
    | 'settings'
    | 'arguments';
  readonly title: string;
  readonly summary: string;
  /** 1 is the likeliest cause. */
  readonly likely: number;
  readonly items: readonly {
    readonly name: string;
    readonly a: unknown;
    readonly b: unknown;
    readonly note?: string | null;
  }[];
  readonly cells?: readonly {
    readonly id: string;
    readonly state: 'same' | 'changed' | 'added' | 'removed' | 'moved';
    /** Its text on each side; null where that side has no such cell. */
    readonly a: string | null;
    readonly b: string | null;
    readonly diff: readonly DiffLine[];
  }[];
}

export interface IComparisonSide {
  readonly ref: string;
  readonly experiment: string;
  readonly label: string;
  readonly trial: number | null;
  readonly step: number | null;
}

export interface IComparison {
  readonly a: IComparisonSide;
  readonly b: IComparisonSide;
  readonly same: boolean;
  readonly title: string;
  /** What is not known. */
  readonly partial: readonly string[];
  readonly sections: readonly IComparisonSection[];
  readonly results: {
    readonly goal: IGoal | null;
    readonly metrics: readonly {
      readonly name: string;
      readonly a: Value | null;
      readonly b: Value | null;
      readonly parts_at: number | null;
    }[];
    readonly pairs: readonly {
      readonly configuration: Readonly<Record<string, unknown>>;
      readonly a: number;
      readonly b: number;
      readonly value_a: Value | null;
      readonly value_b: Value | null;
      readonly parts_at: number | null;
    }[];
    /** How the trials that are compared were chosen, in words, where one is the best of several. */
    readonly selection: string | null;
    readonly within_noise: { readonly verdict: boolean; readonly why: string } | null;
  };
}

export interface IEngine {
  readonly alive: boolean;
  readonly state?: 'running' | 'closing' | 'none' | 'dead';
  readonly host?: string | null;
  readonly pid?: number | null;
  readonly heartbeat?: string | null;
  readonly address?: string | null;
}

export interface IHealth {
  readonly schema: number;
  readonly store: boolean;
  readonly root?: string;
  readonly readonly?: boolean;
  /** False for a store that this person neither made nor adopted: it is only shown. */
  readonly ours?: boolean;
  readonly version?: string;
  /** Earlier servers said only whether it lives. */
  readonly engine: IEngine | boolean;
}

/** Whose the store is, and what adopting it means. */
export interface IOwnership {
  readonly is_ours: boolean;
  readonly reason: string;
  /** What a person does about it. */
  readonly remedy: string;
  readonly root: string;
  readonly owner: string;
  readonly why: string;
  readonly experiments: number;
  /** Labels of what is paused when it is adopted. */
  readonly unfinished: readonly string[];
  readonly requests: number;
  readonly tells: boolean;
  readonly is_kept: boolean;
}

export interface IStore {
  readonly root: string;
  readonly bytes: number;
  readonly free: number;
  readonly reclaimable: number;
  readonly experiments: readonly { readonly id: string; readonly bytes: number }[];
  readonly quota: number | null;
  readonly rule: Readonly<Record<string, unknown>>;
}

export interface IWorker {
  readonly name: string;
  readonly address?: string;
  readonly host?: string;
  readonly slots: number;
  readonly used: number;
  readonly memory: number | null;
  /** Bytes of its machine. */
  readonly memory_limit: number | null;
  /** Cores that it keeps busy. */
  readonly cpu: number | null;
  readonly gpu: readonly {
    readonly name: string;
    readonly used: number;
    readonly total: number;
    readonly utilisation: number | null;
    readonly others: number | null;
  }[];
}

export interface ICluster {
  readonly at?: string;
  readonly engine?: IEngine;
  readonly workers: readonly IWorker[];
  readonly slots?: readonly {
    readonly worker: string;
    readonly slot: number | string;
    readonly experiment: string | null;
    readonly trial: string | null;
    readonly since: string | number | null;
  }[];
  readonly memory?: {
    readonly total: number;
    /** By everybody, `others` included. */
    readonly used: number;
    readonly others: number | null;
  } | null;
  /** Slots of the engine's machine, and whose they are at the moment. */
  readonly held?: readonly IHeld[];
  /** Where Dask's own pages are, where they were asked for. */
  readonly dashboard?: string | null;
}

/** A slot of a machine that an engine holds: this store's, or another one's of the same person. */
export interface IHeld {
  readonly slot: string;
  readonly store: string;
  readonly experiment: string | null;
  readonly pid: number;
  readonly since: string;
}

/** What the engine answered to a request, or that it has not yet. */
export interface IAnswer {
  readonly request: string;
  readonly accepted?: boolean;
  readonly state?: 'waiting' | 'accepted' | 'refused';
  readonly message?: string;
  /** Of a deletion: what would be lost, and until when it can be withdrawn. */
  readonly bytes?: number;
  readonly until?: string;
  readonly [more: string]: unknown;
}

export type Query = Readonly<
  Record<string, string | number | boolean | readonly number[] | null | undefined>
>;

/** The server refused, in its own words; or it could not be reached (status 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    /** The part of the question that made no sense. */
    readonly field: string | null = null
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

/** The addresses under `<base_url>workbench/api/`. Everything rejects with `ApiError`. */
export class Api {
  /** `store`: the id of the store that every question is about; the default one where it is null. */
  constructor(
    readonly settings: ServerConnection.ISettings,
    readonly store: string | null = null
  ) {}

  /** The same for one store. */
  of(store: string): Api {
    return new Api(this.settings, store);
  }

  get<T>(path: string, query: Query = {}): Promise<T> {
    return this._ask<T>('GET', path, query);
  }

  post<T>(path: string, body: unknown): Promise<T> {
    return this._ask<T>('POST', path, {}, body);
  }

  remove<T>(path: string): Promise<T> {
    return this._ask<T>('DELETE', path, {});
  }

  /** Where something can be shown from, such as a logged image. */
  url(path: string, query: Query = {}): string {
    const asked = this.store === null ? query : { ...query, store: this.store };
    return URLExt.join(this.settings.baseUrl, 'workbench', 'api', path) + queried(asked);
  }

  /** What lies at a path as text. */
  async text(path: string): Promise<string> {
    return this._text(this.url(path), path);
  }

  /** A file of ours under `<base_url>workbench/`. */
  async ours(file: string): Promise<string> {
    return this._text(URLExt.join(this.settings.baseUrl, 'workbench', file), file);
  }

  private async _text(address: string, what: string): Promise<string> {
    const response = await this._send(address, {});
    if (!response.ok) {
      throw new ApiError(response.status, `${what}: ${response.statusText}`);
    }
    return response.text();
  }

  private async _ask<T>(method: string, path: string, query: Query, body?: unknown): Promise<T> {
    const init: RequestInit = { method };
    if (body !== undefined) {
      init.body = JSON.stringify(body);
    }
    const response = await this._send(this.url(path, query), init);
    // An empty answer is no error: DELETE may say nothing.
    const answer: unknown = await response.json().catch(() => null);
    if (!response.ok) {
      const { message, field } = (answer ?? {}) as { message?: string; field?: string };
      throw new ApiError(response.status, message ?? response.statusText, field ?? null);
    }
    return answer as T;
  }

  private async _send(address: string, init: RequestInit): Promise<Response> {
    try {
      return await ServerConnection.makeRequest(address, init, this.settings);
    } catch (error) {
      throw new ApiError(0, error instanceof Error ? error.message : String(error));
    }
  }
}

/** The path of an experiment or of what is below it: `experiment('digits@2', 'trials')`. */
export function experimentPath(ref: string, ...below: readonly (string | number)[]): string {
  return ['experiments', ref, ...below].map(part => encodeURIComponent(part)).join('/');
}

function queried(query: Query): string {
  const given = Object.entries(query).filter(
    ([, value]) => value !== null && value !== undefined && value !== ''
  );
  return given.length === 0
    ? ''
    : `?${given.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(String(value))}`).join('&')}`;
}
