/** Media and other files that a trial kept: each name once, and one slider over the steps of all. */

import * as React from 'react';

import { IContext } from '../experiment/context';
import { useAsked } from '../hooks';
import { Content, Download } from '../media/content';
import { byName, shownAt, stepsOf } from '../media/media';
import { StepSlider } from '../media/slider';
import { IFiles, ISource, pathOf, usePaced } from '../media/source';

export function TrialFiles(props: {
  context: IContext;
  trial: number;
  /** It counts the changes of the trial. */
  turn: number;
}): React.JSX.Element | null {
  const { context, trial } = props;
  const { api, experiment, trans } = context;
  const source: ISource = { context, experiment: experiment.ref, trial };
  const turn = usePaced(props.turn);
  const asked = useAsked(() => api.get<IFiles>(pathOf(source)), [experiment, trial, turn]);
  const media = React.useMemo(() => byName(asked.value?.files ?? []), [asked.value]);
  const steps = React.useMemo(() => stepsOf(media.values()), [media]);
  const [step, setStep] = React.useState<number | null>(null);
  if (media.size === 0) {
    return asked.error ? (
      <p className="wb-Stale" role="status">
        {asked.error.message}
      </p>
    ) : null;
  }
  const left = asked.value?.left_out ?? 0;
  return (
    <section className="wb-Part" aria-label={trans.__('Media and files')}>
      <h4>{trans.__('Media and files')}</h4>
      <StepSlider trans={trans} steps={steps} chosen={step} onChosen={setStep} />
      {left > 0 && (
        <p className="wb-Trial-none">
          {trans._n('%1 file of the first steps is not listed.', '%1 files of the first steps are not listed.', left)}
        </p>
      )}
      <div className="wb-Files">
        {[...media].map(([name, found]) => {
          const at = shownAt(found, step);
          return (
            <section key={name} className="wb-File" aria-label={name}>
              <header>
                <span className="wb-File-title">{name}</span>
                {at?.step !== null && at !== null && <span>{trans.__('step %1', at.step)}</span>}
                {at && <Download source={source} at={at} />}
              </header>
              {at ? (
                <Content source={source} name={name} at={at} />
              ) : (
                <p className="wb-Trial-none">{trans.__('First logged in step %1.', found[0]!.step ?? 0)}</p>
              )}
            </section>
          );
        })}
      </div>
    </section>
  );
}
