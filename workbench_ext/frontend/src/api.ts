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
  | 'failed';

/** JSON has no NaN and no infinity: the server writes those as words. */
export type Value = number | 'nan' | 'inf' | '-inf';

export interface IExperiment {
  readonly id: string;
  /** `digits@2` */
  readonly label: string;
  readonly state: State;
  readonly reason: string | null;
  /** UTC, ISO 8601. */
  readonly created: string;
  readonly goal: { readonly metric: string; readonly mode: 'max' | 'min' } | null;
  readonly best: { readonly value: Value; readonly trial: string } | null;
  /** Trials begun so far, and how many are planned where that is known. */
  readonly trials: { readonly begun: number; readonly planned: number | null };
  /** Share of the work that is done, 0 to 1, where the plan is known. */
  readonly progress: number | null;
}

export interface IExperiments {
  readonly experiments: readonly IExperiment[];
}

/** GET an address under `/workbench/api/`. Rejects with the server's own words. */
export async function requestAPI<T>(
  endPoint: string,
  settings: ServerConnection.ISettings
): Promise<T> {
  const address = URLExt.join(settings.baseUrl, 'workbench', 'api', endPoint);
  const response = await ServerConnection.makeRequest(address, {}, settings);
  if (!response.ok) {
    throw await ServerConnection.ResponseError.create(response);
  }
  return (await response.json()) as T;
}
