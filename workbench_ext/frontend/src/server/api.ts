/** Queries to the server. Law: the only file that fetches; answers are data, and texts in them are never markup. */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import { components, operations } from './schema';

// Types of what is sent are generated from the server's description (openapi.yaml, by `jlpm generate`); here they only
// get shorter names.
export type Schemas = components['schemas'];

/** The answer of an address, by the `operationId` in the description. */
export type Answer<Operation extends keyof operations> = operations[Operation] extends {
  readonly responses: { readonly 200: { readonly content: { readonly 'application/json': infer Said } } };
}
  ? Said
  : never;

export type State = Schemas['State'];
/** JSON has no NaN and no infinity: the server writes those as words. */
export type Value = Schemas['Value'];
export type IGoal = Schemas['Goal'];

/** A line of the list, with the id of its store, which the caller adds. */
export type IExperiment = Schemas['Experiment'] & { readonly store: string };
/** The same as the server sends it. */
export type ILine = Schemas['Experiment'];
export type IOutcome = Schemas['Outcome'];
export type ITrouble = Schemas['Trouble'];
export type IExperiments = Answer<'experiments'>;
export type IExperimentAnswer = Answer<'experiment'>;
/** The form of a search space, a program and a scheduler in a spec; older specs have fewer fields. */
export type Spec = IExperimentAnswer['spec'];
export type IAbout = Schemas['About'];

export type ITrial = Schemas['Trial'];
export type ITrials = Answer<'trials'>;
export type ITrialAnswer = Answer<'trial'>;
export type ILeg = Schemas['Leg'];
export type ITimeline = Answer<'timeline'>;
export type ICheckpoint = Schemas['Checkpoint'];
export type ITrialFile = Schemas['TrialFile'];
export type IDataFile = Schemas['DataFile'];
export type ILog = Answer<'log'>;

export type IMetrics = Answer<'metrics'>;
export type ISystem = Schemas['System'];
export type ICurves = Answer<'curves'>;
export type ICurve = ICurves['curves'][number];
export type IMeasures = Answer<'measures'>;
export type IMeasured = Schemas['Measured'];
export type IImportance = Answer<'importance'>;

export type ISnapshot = Answer<'snapshot'>;
export type DiffLine = Schemas['DiffLine'];
export type IComparison = Answer<'compare'>;
export type IComparisonSection = Schemas['ComparisonSection'];

/** A store that the server shows. */
export type IStoreInfo = Schemas['Store'];
/** A store's disk usage. */
export type IStore = Answer<'store'>;
export type IHealth = Answer<'health'>;
export type IEngine = Schemas['Engine'];
export type IOwnership = Answer<'ownership'>;
export type ICluster = Answer<'cluster'>;
export type IWorker = Schemas['Worker'];
export type IHeld = Schemas['Held'];
/** The slots of the server's machine, and who waits for one. */
export type IQueue = Answer<'queue'>;
export type IQueueSlot = Schemas['QueueSlot'];
export type IWaits = Schemas['Waits'];
export type IQueueCluster = Schemas['AttachedCluster'];

/** The open notebook with its unsaved edits. */
export type IDocument = Schemas['Document'];
/** A request to the engine, and its answer, or that it has not answered yet. */
export type IRequest = Schemas['Request'];
export type IAnswer = Answer<'ask'> | Waiting;
type Waiting = operations['ask']['responses'][202]['content']['application/json'];

/** Final states. */
export const ENDED: ReadonlySet<string> = new Set(['completed', 'stopped', 'failed']);

/** An experiment and its store: a copy of a store has experiments with the same ids. */
export interface IRef {
  readonly experiment: string;
  /** The id of its store. */
  readonly store: string;
}

export type Query = Readonly<Record<string, string | number | boolean | readonly number[] | null | undefined>>;

/** The server refused, in its own words; or it could not be reached (status 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    /** The invalid part of the request. */
    readonly field: string | null = null
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

/** The last answer of an address that is asked again and again, with the server's tag for it. The server does not send
 * it again while it is the same. */
export class Kept<T> {
  constructor(
    readonly tag: string | null = null,
    readonly answer: T | null = null
  ) {}
}

/** The addresses under `<base_url>workbench/api/`. Everything rejects with `ApiError`. */
export class Api {
  /** `store`: the id of the store of all queries; null for the default one. */
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

  /** The same, given its last result: if the answer is still the same, that object itself. */
  async again<T>(path: string, kept: Kept<T>): Promise<Kept<T>> {
    // JupyterLab forbids the browser to keep answers, so the browser sends no tag of its own.
    const headers: HeadersInit = kept.tag === null ? {} : { 'If-None-Match': kept.tag };
    const response = await this._send(this.url(path), { method: 'GET', headers });
    if (response.status === 304) {
      return kept;
    }
    // A server of another origin does not show its tag: everything is then sent each time.
    return new Kept(response.headers.get('ETag'), await answered<T>(response));
  }

  post<T>(path: string, body: unknown): Promise<T> {
    return this._ask<T>('POST', path, {}, body);
  }

  remove<T>(path: string): Promise<T> {
    return this._ask<T>('DELETE', path, {});
  }

  /** The URL of a file to display, such as a logged image. */
  url(path: string, query: Query = {}): string {
    const asked = this.store === null ? query : { ...query, store: this.store };
    return URLExt.join(this.settings.baseUrl, 'workbench', 'api', path) + queried(asked);
  }

  /** The content of a path as text. */
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
    return answered<T>(await this._send(this.url(path, query), init));
  }

  private async _send(address: string, init: RequestInit): Promise<Response> {
    try {
      return await ServerConnection.makeRequest(address, init, this.settings);
    } catch (error) {
      // The browser's words alone, such as "Failed to fetch", do not say what has failed.
      const why = error instanceof Error ? error.message : String(error);
      throw new ApiError(0, `The Jupyter server does not answer (${why}).`);
    }
  }
}

/** The path of an experiment or of what is below it: `experiment('digits@2', 'trials')`. */
export function experimentPath(ref: string, ...below: readonly (string | number)[]): string {
  return ['experiments', ref, ...below].map(part => encodeURIComponent(part)).join('/');
}

async function answered<T>(response: Response): Promise<T> {
  // An empty answer is not an error: DELETE may return nothing.
  const answer: unknown = await response.json().catch(() => null);
  if (!response.ok) {
    const { message, field } = (answer ?? {}) as { message?: string; field?: string };
    throw new ApiError(response.status, message ?? response.statusText, field ?? null);
  }
  return answer as T;
}

function queried(query: Query): string {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== '');
  return given.length === 0
    ? ''
    : `?${given.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(String(value))}`).join('&')}`;
}
