/** How curves look, in the Curves tab and in the small charts: smoothed, over steps or time, and in which colours. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { Choice, Smoothing } from '../chart/controls';
import { Unit } from './curves';

export function Look(props: {
  trans: TranslationBundle;
  weight: number;
  setWeight: (weight: number) => void;
  unit: Unit;
  setUnit: (unit: Unit) => void;
  by: string;
  setBy: (by: string) => void;
  /** The metric of the goal, if there is one. */
  goal: string | undefined;
  parameters: readonly { name: string }[];
}): React.JSX.Element {
  const { trans, goal, parameters } = props;
  return (
    <>
      <Smoothing trans={trans} weight={props.weight} onWeight={props.setWeight} />
      <Choice
        label={trans.__('Over')}
        value={props.unit}
        onChange={value => props.setUnit(value as Unit)}
        options={[
          ['step', trans.__('step')],
          ['time', trans.__('time')]
        ]}
      />
      <Choice
        label={trans.__('Colour')}
        value={props.by}
        onChange={props.setBy}
        options={[
          ['value', goal ?? trans.__('value')],
          ['state', trans.__('state')],
          ...parameters.map(({ name }) => [`p:${name}`, name] as [string, string])
        ]}
      />
    </>
  );
}
