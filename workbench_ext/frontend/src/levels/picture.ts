/** Trials of one level as dots in a picture of two values. Law: pure but for the canvas it is given. */

import { dotted } from '../chart/dots';
import { IPicture, IView } from '../chart/plot';
import { axisOf, dotsAt, IValue, placed } from '../parameters/values';
import { IShared, levelFacts } from './shared';

interface IGiven {
  readonly shared: IShared;
  readonly x: IValue;
  readonly y: IValue;
  readonly logX?: boolean;
  readonly logY?: boolean;
  /** The part that is shown; null for all of it. */
  readonly view?: IView | null;
  /** What is painted below the dots. */
  readonly under?: IPicture['paint'];
  /** Whether dots have a rim, because they lie on colours. */
  readonly rimmed?: boolean;
  readonly radius?: number;
}

export function levelPicture(given: IGiven): IPicture {
  const { shared, x, y, logX = false, logY = false, view = null, under, rimmed, radius } = given;
  const { trials, colours, selected, theme, best, context } = shared;
  const dots = placed(dotsAt(trials, x, y), logX, logY);
  const { of, ...drawn } = dotted({ dots, colours, selected, theme, best, radius, rimmed });
  return {
    x: axisOf(
      x,
      dots.map(one => one.x),
      logX,
      view?.x
    ),
    // The same for trials that have no place across, so that pictures side by side have one axis.
    y: axisOf(y, trials.map(y.of).filter(Number.isFinite), logY, view?.y),
    data: given,
    ...drawn,
    paint: (paper, across, up) => {
      under?.(paper, across, up);
      drawn.paint(paper, across, up);
    },
    hit: (number, across, up) => {
      const [dot, trial] = [of.get(number), context.experiment.trials.get(number)];
      return dot && trial
        ? { trial: number, left: across.of(dot.x), top: up.of(dot.y), facts: levelFacts(trial, shared) }
        : null;
    }
  };
}
