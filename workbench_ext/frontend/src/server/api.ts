/** What the server says. Law: the only file that fetches; answers are data, and every text in them is only text. */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import { components, operations } from './schema';

// Types of what is sent are generated from the server's description (openapi.yaml, by `jlpm generate`); here they only
// get the names by which the page calls them.
export type Schemas = components['schemas'];

/** What an address answers, by the `operationId` that the description gives it. */
export type Answer<Operation extends keyof operations> = operations[Operation] extends {
  readonly responses: { readonly 200: { readonly content: { readonly 'application/json': infer Said } } };
}
  ? Said
  : never;

export type State = Schemas['State'];
/** JSON has no NaN and no infinity: the server writes those as words. */
export type Value = Schemas['Value'];
export type IGoal = Schemas['Goal'];

/** A line of the list, with the id of its store, which whoever asked for it adds. */
export type IExperiment = Schemas['Experiment'] & { readonly store: string };
/** The same as the server sends it. */
export type ILine = Schemas['Experiment'];
export type IOutcome = Schemas['Outcome'];
export type ITrouble = Schemas['Trouble'];
export type IExperiments = Answer<'experiments'>;
export type IExperimentAnswer = Answer<'experiment'>;
/** What a search space, a program and a scheduler look like in a spec; read with care, as older specs hold less. */
export type Spec = IExperimentAnswer['spec'];

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
export type ICurves = Answer<'curves'>;
export type ICurve = ICurves['curves'][number];
export type IImportance = Answer<'importance'>;

export type ISnapshot = Answer<'snapshot'>;
export type DiffLine = Schemas['DiffLine'];
export type IComparison = Answer<'compare'>;
export type IComparisonSection = Schemas['ComparisonSection'];

/** A store that the server shows. */
export type IStoreInfo = Schemas['Store'];
/** What a store takes on its disk. */
export type IStore = Answer<'store'>;
export type IHealth = Answer<'health'>;
export type IEngine = Schemas['Engine'];
export type IOwnership = Answer<'ownership'>;
export type ICluster = Answer<'cluster'>;
export type IWorker = Schemas['Worker'];
export type IHeld = Schemas['Held'];

/** The notebook as it lies open. */
export type IDocument = Schemas['Document'];
/** What can be asked of the engine, and its answer, or that it has not answered yet. */
export type IRequest = Schemas['Request'];
export type IAnswer = Answer<'ask'> | Waiting;
type Waiting = operations['ask']['responses'][202]['content']['application/json'];

/** States in which nothing happens any more. */
export const ENDED: ReadonlySet<string> = new Set(['completed', 'stopped', 'failed']);

/** Which experiment is meant: a copy of a store holds experiments of the same ids. */
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
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== '');
  return given.length === 0
    ? ''
    : `?${given.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(String(value))}`).join('&')}`;
}
