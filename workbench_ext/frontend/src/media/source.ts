/** Where the files of a trial are asked for. */

import * as React from 'react';

import { IPageContext } from '../experiment/context';
import { IAsked, useAsked } from '../hooks';
import { Answer, ITrialFile, experimentPath } from '../server/api';

/** A trial of an experiment, whose files are shown. */
export interface ISource {
  readonly context: IPageContext;
  /** The experiment's id. */
  readonly experiment: string;
  readonly trial: number;
}

export type IFiles = Answer<'files'>;

/** Milliseconds between two queries for the list of a trial that trains. */
const PACE_MS = 1000;

export function pathOf({ experiment, trial }: ISource, file?: ITrialFile): string {
  return experimentPath(experiment, 'trials', trial, 'files', ...(file?.name.split('/') ?? []));
}

export function addressOf(source: ISource, file: ITrialFile): string {
  return source.context.api.url(pathOf(source, file));
}

/** The text of a file, asked again if the file is another or has changed. */
export function useText(source: ISource, file: ITrialFile | null): IAsked<string | null> {
  const path = file ? pathOf(source, file) : '';
  return useAsked(async () => (path ? source.context.api.text(path) : null), [source.context.api, path, file?.bytes]);
}

/** The same as JSON; its form is what the training code wrote, which may be anything. */
export function useJson(source: ISource, file: ITrialFile | null): IAsked<unknown> {
  const path = file ? pathOf(source, file) : '';
  return useAsked(
    async () => (path ? source.context.api.get<unknown>(path) : null),
    [source.context.api, path, file?.bytes]
  );
}

/** The value, at most once in `PACE_MS`: a trial may report many times a second. */
export function usePaced<T>(value: T): T {
  const [held, setHeld] = React.useState(value);
  const last = React.useRef(0);
  React.useEffect(() => {
    const timer = setTimeout(
      () => {
        last.current = Date.now();
        setHeld(value);
      },
      Math.max(0, last.current + PACE_MS - Date.now())
    );
    return () => clearTimeout(timer);
  }, [value]);
  return held;
}
