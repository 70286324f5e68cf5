/** The curves of a metric for a component, fetched and followed while it shows them. */

import * as React from 'react';

import { IView } from '../chart/plot';
import { IContext } from '../experiment/context';
import { Curves, Unit } from './curves';

/** `width`: pixels across which they are drawn; with none, nothing is fetched. `system`: the metric is a measure of
 * processes. */
export function useCurves(
  { experiment }: IContext,
  metric: string,
  unit: Unit,
  width: number,
  log: boolean,
  system = false
): Curves | null {
  const [curves, setCurves] = React.useState<Curves | null>(null);
  const [, again] = React.useReducer((count: number) => count + 1, 0);
  // A slightly wider picture needs no new points.
  const columns = Math.ceil(width / 400) * 400;
  React.useEffect(() => {
    if (!metric || columns === 0) {
      return;
    }
    const made = new Curves(experiment, metric, unit, columns, log, null, system);
    let turn = 0;
    const draw = () => {
      cancelAnimationFrame(turn);
      turn = requestAnimationFrame(() => again());
    };
    made.changed.connect(draw);
    setCurves(made);
    return () => {
      cancelAnimationFrame(turn);
      made.dispose();
    };
  }, [experiment, metric, unit, columns, log, system]);
  return curves;
}

/** Fetch the points of the visible part when the movement has ended. */
export function useDetail(curves: Curves | null, view: IView | null): void {
  const [low, high] = view?.x ?? [null, null];
  React.useEffect(() => {
    if (!curves) {
      return;
    }
    if (low === null || high === null) {
      void curves.look(null);
      return;
    }
    const rest = window.setTimeout(() => void curves.look([low, high]), 150);
    return () => window.clearTimeout(rest);
  }, [curves, low, high]);
}
