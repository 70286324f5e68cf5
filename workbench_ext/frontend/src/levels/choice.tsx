/** The level that views of one experiment compare at: chosen in one, it holds in all. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { Choice } from '../chart/controls';
import { IContext } from '../experiment/context';
import { ladderOf } from '../experiment/follow';
import { useKept, useSignal } from '../hooks';
import { chosenLevel, ILevel, levelsOf } from './levels';

export interface IChosen {
  /** Lowest first. */
  readonly levels: readonly ILevel[];
  /** Null before any trial has reached one. */
  readonly level: ILevel | null;
  /** The step that the user chose; null for the highest one that is reached. */
  readonly step: number | null;
  /** Why there is nothing to show, in words; null once there is. */
  readonly waits: string | null;
  choose(step: number | null): void;
}

export function useLevel({ experiment, state, trans }: IContext): IChosen {
  const model = ladderOf(experiment);
  useSignal(model.changed);
  const [step, choose] = useKept<number | null>(state, 'level', null);
  const { ladder } = model;
  const levels = React.useMemo(() => (ladder ? levelsOf(ladder) : []), [ladder]);
  const level = React.useMemo(() => chosenLevel(levels, step), [levels, step]);
  const waits = model.error
    ? model.error.message
    : ladder === null
      ? trans.__('Reading the journal …')
      : level === null || level.values.size === 0
        ? trans.__('No trial has a finite value at a level of the search yet.')
        : null;
  return { levels, level, step, waits, choose };
}

/** `highest`: what is shown unless the user chooses. */
export function LevelChoice(props: { chosen: IChosen; highest: string; trans: TranslationBundle }): React.JSX.Element {
  const { chosen, highest, trans } = props;
  const told = ({ step, values }: ILevel) => trans._n('step %2: %1 trial', 'step %2: %1 trials', values.size, step);
  return (
    <Choice
      label={trans.__('Level')}
      value={chosen.levels.some(({ step }) => step === chosen.step) ? String(chosen.step) : ''}
      onChange={value => chosen.choose(value === '' ? null : Number(value))}
      options={[['', highest], ...chosen.levels.map(level => [String(level.step), told(level)] as const)]}
    />
  );
}
