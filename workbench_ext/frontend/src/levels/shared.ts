/** What the views of one level have in common: its trials, their colours, and the best one. */

import { useMemo } from 'react';

import { ITheme } from '../chart/paint';
import { useTheme } from '../chart/theme';
import { trialFacts } from '../chart/tip';
import { IContext } from '../experiment/context';
import { useSelected, useSignal } from '../hooks';
import { colouring, IColouring } from '../parameters/colouring';
import { useParameters } from '../parameters/memory';
import { IParameter } from '../parameters/parameters';
import { IValue } from '../parameters/values';
import { ITrial } from '../server/api';
import { IChosen, useLevel } from './choice';
import { goalAt } from './levels';

export interface IShared {
  readonly context: IContext;
  readonly chosen: IChosen;
  /** Those with a value at the level, the best first. */
  readonly trials: readonly ITrial[];
  /** The goal at the level. */
  readonly goal: IValue;
  readonly known: readonly IParameter[];
  readonly colours: IColouring;
  readonly selected: ReadonlySet<number>;
  readonly theme: ITheme;
  /** The best of the trials. */
  readonly best: number | null;
}

const NOWHERE = { step: 0, values: new Map<number, number>() };

/** `by`: what colours mean, as in {@link colouring}; `value` is the value at the level. */
export function useShared(context: IContext, by: string): IShared {
  const { experiment, trans, selection } = context;
  const turn = useSignal(experiment.changed);
  const theme = useTheme(context);
  const selected = useSelected(selection);
  const known = useParameters(experiment);
  const chosen = useLevel(context);
  const { metric, mode } = experiment.goal ?? { metric: '', mode: 'max' };
  const level = chosen.level ?? NOWHERE;
  const goal = useMemo(() => goalAt(level, { metric, mode }, trans), [level, metric, mode, trans]);
  const trials = useMemo(() => {
    const found = [...level.values.keys()]
      .map(number => experiment.trials.get(number))
      .filter(one => one !== undefined);
    const sign = mode === 'max' ? -1 : 1;
    return found.sort((a, b) => sign * (goal.of(a) - goal.of(b)) || a.number - b.number);
    // eslint-disable-next-line react-hooks/exhaustive-deps -- trials change in place: `turn` says when
  }, [level, goal, mode, turn]);
  const colours = useMemo(() => {
    const given = { trials: new Map(trials.map(one => [one.number, one])), parameters: known, trans };
    return colouring(by, { ...given, goal: { metric: goal.label, mode }, dark: theme.dark, value: goal.of });
  }, [by, trials, known, goal, mode, theme.dark, trans]);
  return { context, chosen, trials, goal, known, colours, selected, theme, best: trials[0]?.number ?? null };
}

/** What is said of a trial beside the pointer: its value at the level first. */
export function levelFacts(trial: ITrial, { goal, context }: IShared): [string, string][] {
  return [
    [goal.label, goal.text(goal.of(trial))],
    ...trialFacts(trial, context).map(([a, b]): [string, string] => [a, b])
  ];
}
