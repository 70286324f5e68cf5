/** The picture of a metric's curves. Law: pure but for the canvas it is given. */

import { hitOf, ILine, nearest, paintLines, pointOut } from '../chart/curvepaint';
import { passes } from '../chart/lines';
import { ITheme } from '../chart/paint';
import { IPicture, IView } from '../chart/plot';
import { IFact, trialFacts } from '../chart/tip';
import { IChartContext } from '../experiment/context';
import { shown } from '../numbers';
import { IColouring } from '../parameters/colouring';
import { ITrial } from '../server/api';
import { Unit } from './curves';

export interface IShown {
  readonly context: IChartContext;
  readonly metric: string;
  readonly unit: Unit;
  /** What x is, where it is not said by the unit. */
  readonly across?: string;
  readonly logX: boolean;
  readonly logY: boolean;
  readonly lines: ReadonlyMap<number, Omit<ILine, 'colour'>>;
  readonly view: IView;
  /** The trials, the best first. */
  readonly order: readonly ITrial[];
  readonly colours: IColouring;
  readonly selected: ReadonlySet<number>;
  /** The best trial. */
  readonly best: number | null;
  readonly theme: ITheme;
}

export function curvesPicture(given: IShown): IPicture {
  const { context, metric, unit, logX, logY, lines, view, order, colours, selected, best, theme } = given;
  const { trans, experiment } = context;
  const { trials } = experiment;
  const found = new Map<number, ILine>();
  // The best last, so that they lie on top.
  for (const { number } of [...order].reverse()) {
    const line = lines.get(number);
    if (line) {
      found.set(number, { ...line, colour: colours.of(number) });
    }
  }
  const across = given.across ?? (unit === 'step' ? trans.__('step') : trans.__('seconds since its first value'));
  return {
    x: { label: across, range: view.x, log: logX, whole: unit === 'step' },
    y: { label: metric, range: view.y, log: logY },
    data: [lines, colours, order, selected, best, theme],
    order: order.filter(({ number }) => found.has(number)).map(({ number }) => number),
    paint: (paper, x, y) => paintLines(paper, x, y, found, selected, best, theme.page, theme.text),
    point: (paper, x, y, trial) => pointOut(paper, x, y, found.get(trial), theme.page),
    nearest: (left, top, x, y) => nearest(found, selected, left, top, x, y),
    within: (box, x, y) => [...found.values()].filter(l => passes(l.x, l.y, x, y, box)).map(l => l.trial),
    hit: (trial, x, y, left) => hitOf(found.get(trial), trials.get(trial), x, y, left, factsOf)
  };

  function factsOf(line: ILine, at: number, trial: ITrial | undefined): IFact[] {
    const value = line.raw ? line.raw[at]! : line.y[at]!;
    const facts: IFact[] = [
      [metric, shown(value)],
      [unit === 'step' ? trans.__('step') : trans.__('seconds'), shown(line.x[at])]
    ];
    if (line.raw) {
      facts.splice(1, 0, [trans.__('smoothed'), shown(line.y[at])]);
    }
    return trial ? [...facts, ...trialFacts(trial, context)] : facts;
  }
}
