/** The slider over steps: arrow keys move it by one, Home and End to its ends. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

export function StepSlider(props: {
  trans: TranslationBundle;
  /** Ascending. */
  steps: readonly number[];
  /** The chosen step; null while it follows the newest. */
  chosen: number | null;
  onChosen(step: number | null): void;
}): React.JSX.Element | null {
  const { trans, steps, chosen, onChosen } = props;
  const id = React.useId();
  if (steps.length === 0) {
    return null;
  }
  const last = steps.length - 1;
  const found = chosen === null ? last : steps.findIndex(step => step >= chosen);
  const at = found < 0 ? last : found;
  return (
    <div className="wb-Steps">
      <label htmlFor={id}>{trans.__('Step')}</label>
      <input
        id={id}
        type="range"
        min={0}
        max={last}
        value={at}
        disabled={last === 0}
        aria-valuetext={String(steps[at])}
        // At its end it follows: new steps are shown as they come.
        onChange={({ target }) => onChosen(Number(target.value) === last ? null : steps[Number(target.value)]!)}
      />
      <output htmlFor={id}>{steps[at]}</output>
    </div>
  );
}
