/** What React components share. */

import { ReadonlyPartialJSONValue } from '@lumino/coreutils';
import { CommandRegistry } from '@lumino/commands';
import { ISignal } from '@lumino/signaling';
import { RefObject, useCallback, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from 'react';

import { ApiError, IMetrics, ISystem, experimentPath } from './server/api';
import { ExperimentModel } from './experiment/experiment';
import { Selection } from './experiment/selection';
import { Turns } from './server/turns';
import { ViewState } from './state';

/** Milliseconds between two questions what is measured: a worker looks every few seconds. */
const SYSTEM_GAP = 5000;
const NO_SYSTEM: readonly ISystem[] = [];

/** Render again when a signal is emitted. Returns a number that changes each time, for use as a dependency. */
export function useSignal<S, A>(signal: ISignal<S, A>): number {
  const [turn, again] = useReducer((count: number) => count + 1, 0);
  // In the same turn as the rendering: an effect runs later, and would miss what is emitted in between.
  useLayoutEffect(() => {
    const slot = () => again();
    signal.connect(slot);
    return () => {
      signal.disconnect(slot);
    };
  }, [signal]);
  return turn;
}

/** Render again when the state of commands may have changed. */
export function useCommands(commands: CommandRegistry): void {
  useSignal(commands.commandChanged);
}

/** The size in pixels of an element, followed as it changes; zero until it is shown. */
export function useSize(ref: RefObject<HTMLElement>): { width: number; height: number } {
  const [size, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) {
      return;
    }
    const observer = new ResizeObserver(entries => {
      const { width, height } = entries[entries.length - 1]!.contentRect;
      setSize(now => (now.width === width && now.height === height ? now : { width, height }));
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [ref]);
  return size;
}

/** The result of an asynchronous query. While it is repeated, the last answer stays. */
export interface IAsked<T> {
  readonly value: T | null;
  readonly error: ApiError | null;
  readonly asking: boolean;
}

/** Query when one of `why` changes. The answer of an outdated query is dropped. */
export function useAsked<T>(ask: () => Promise<T>, why: readonly unknown[]): IAsked<T> {
  const [state, setState] = useState<IAsked<T>>({ value: null, error: null, asking: true });
  const newest = useRef(0);
  useEffect(() => {
    const turn = ++newest.current;
    setState(now => ({ ...now, asking: true }));
    ask().then(
      value => turn === newest.current && setState({ value, error: null, asking: false }),
      (reason: unknown) => {
        if (turn === newest.current) {
          const error = reason instanceof ApiError ? reason : new ApiError(0, String(reason));
          setState(now => ({ ...now, error, asking: false }));
        }
      }
    );
    return () => {
      newest.current += 1;
    };
    // eslint-disable-next-line react-hooks/exhaustive-deps -- the question is a new function at each rendering: `why` says when to ask
  }, why);
  return state;
}

/** A user's choice that is kept with the workspace. `T` is plain JSON, which interfaces cannot declare. */
export function useKept<T>(state: ViewState, key: string, otherwise: T): [T, (value: T) => void] {
  const [value, setValue] = useState<T>(() => state.get(key, otherwise as ReadonlyPartialJSONValue) as T);
  const keep = (next: T) => {
    setValue(next);
    state.set(key, next as ReadonlyPartialJSONValue);
  };
  return [value, keep];
}

/** The selected trials; pointing at one does not render again. */
export function useSelected(selection: Selection): ReadonlySet<number> {
  const [selected, setSelected] = useState(selection.trials);
  useEffect(() => {
    const slot = () => setSelected(selection.trials);
    slot();
    selection.changed.connect(slot);
    return () => {
      selection.changed.disconnect(slot);
    };
  }, [selection]);
  return selected;
}

/** A function that does something in the next frame, once, however often it is called until then. */
export function useTurns(does: () => void): () => void {
  const newest = useRef(does);
  newest.current = does;
  const turn = useRef(0);
  useEffect(() => () => cancelAnimationFrame(turn.current), []);
  return useCallback(() => {
    cancelAnimationFrame(turn.current);
    turn.current = requestAnimationFrame(() => newest.current());
  }, []);
}

/** The metrics that were reported, the goal first; asked again while there may be new ones. */
export function useMetrics(experiment: ExperimentModel): readonly string[] {
  const begun = experiment.row?.trials.begun ?? 0;
  const asked = useAsked(
    () => experiment.api.get<IMetrics>(experimentPath(experiment.ref, 'metrics')),
    [experiment, Math.min(begun, 3), experiment.row?.state, experiment.row?.best === null]
  );
  return useMemo(
    () => [...(asked.value?.metrics ?? [])].sort((a, b) => Number(b.goal) - Number(a.goal)).map(({ name }) => name),
    [asked.value]
  );
}

/** What was measured of the trials' processes; asked again now and then while the experiment grows. */
export function useSystem(experiment: ExperimentModel): readonly ISystem[] {
  const [turn, again] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const turns = new Turns(() => Promise.resolve(again()), SYSTEM_GAP);
    const slot = () => turns.ask();
    experiment.told.connect(slot);
    experiment.changed.connect(slot);
    return () => {
      experiment.told.disconnect(slot);
      experiment.changed.disconnect(slot);
      turns.dispose();
    };
  }, [experiment]);
  const asked = useAsked(
    () => experiment.api.get<IMetrics>(experimentPath(experiment.ref, 'metrics')),
    [experiment, turn, experiment.row?.state]
  );
  return asked.value?.system ?? NO_SYSTEM;
}

/** Whether an element is on the screen, or less than `ahead` pixels beyond the edge of the scroller around it. */
export function useSeen(ref: RefObject<HTMLElement>, scroller?: string, ahead = 0): boolean {
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    const observer = new IntersectionObserver(entries => setSeen(entries[entries.length - 1]!.isIntersecting), {
      root: scroller ? ref.current!.closest(scroller) : null,
      rootMargin: `${ahead}px`
    });
    observer.observe(ref.current!);
    return () => observer.disconnect();
  }, [ref, scroller, ahead]);
  return seen;
}
