/** Media of several trials side by side: one name, and one slider over the steps of all. */

import * as React from 'react';

import { Choice } from '../chart/controls';
import { IPageContext } from '../experiment/context';
import { useAsked } from '../hooks';
import { Content, Download } from './content';
import { IStep, Media, byName, shownAt, stepsOf } from './media';
import { StepSlider } from './slider';
import { IFiles, ISource, pathOf, usePaced } from './source';

/** One of the trials. */
export interface ISide {
  /** As it is named here. */
  readonly label: string;
  /** The trial's value of the goal, where nothing else on the page says it. */
  readonly value?: string;
  /** The experiment's id. */
  readonly experiment: string;
  readonly trial: number;
  /** It counts the changes of the trial. */
  readonly change: number;
}

interface IFound {
  readonly media: Media;
  readonly error: string | null;
}

const NOTHING: readonly IStep[] = [];

export function Beside(props: {
  context: IPageContext;
  sides: readonly ISide[];
  /** What is shown where no trial has logged media. */
  otherwise?: React.JSX.Element;
}): React.JSX.Element | null {
  const { context, sides, otherwise } = props;
  const { api, trans } = context;
  const changes = usePaced(sides.map(({ change }) => change).join());
  const sources = sides.map(({ experiment, trial }): ISource => ({ context, experiment, trial }));
  const which = sources.map(({ experiment, trial }) => `${experiment}/${trial}`).join();
  const asked = useAsked(async () => {
    const ask = async (source: ISource): Promise<IFound> => {
      try {
        return { media: byName((await api.get<IFiles>(pathOf(source))).files), error: null };
      } catch (error) {
        // One of several may have lost its files: the others are shown.
        return { media: new Map(), error: error instanceof Error ? error.message : String(error) };
      }
    };
    return { which, found: await Promise.all(sources.map(ask)) };
  }, [api, which, changes]);
  // While other trials are asked for, the answer about the former ones would be wrong.
  const found = asked.value?.which === which ? asked.value.found : null;
  const [chosen, setChosen] = React.useState('');
  const [step, setStep] = React.useState<number | null>(null);
  const names = React.useMemo(() => namesOf(found ?? []), [found]);
  const name = names.includes(chosen) ? chosen : (names[0] ?? '');
  const steps = React.useMemo(
    () => stepsOf((found ?? []).map(({ media }) => media.get(name) ?? NOTHING)),
    [found, name]
  );
  if (!name) {
    return found ? (otherwise ?? null) : null;
  }
  return (
    <section className="wb-Part wb-Beside" aria-label={trans.__('Media')}>
      <h4>{trans.__('Media')}</h4>
      <div className="wb-Beside-controls">
        <Choice
          label={trans.__('Name')}
          value={name}
          onChange={setChosen}
          options={names.map(one => [one, one] as const)}
        />
        <StepSlider trans={trans} steps={steps} chosen={step} onChosen={setStep} />
      </div>
      <div className="wb-Beside-sides">
        {sides.map(({ label, value, experiment, trial }, place) => {
          const { media, error } = found![place]!;
          const logged = media.get(name);
          const at = logged ? shownAt(logged, step) : null;
          return (
            <section key={`${experiment}/${trial}/${place}`} className="wb-File" aria-label={label}>
              <header>
                <button
                  type="button"
                  className="wb-Link"
                  title={trans.__('Open the page of %1', label)}
                  onClick={() =>
                    void context.commands.execute('workbench:open-trial', { experiment, trial, store: api.store })
                  }
                >
                  {label}
                </button>
                {value && <strong>{value}</strong>}
                {at?.step !== null && at !== null && <span>{trans.__('step %1', at.step)}</span>}
                {at && <Download source={sources[place]!} at={at} />}
              </header>
              {at ? (
                <Content source={sources[place]!} name={`${label}: ${name}`} at={at} />
              ) : (
                <p className="wb-Trial-none">
                  {error ??
                    (logged
                      ? trans.__('First logged in step %1.', logged[0]!.step ?? 0)
                      : trans.__('It has not logged %1.', name))}
                </p>
              )}
            </section>
          );
        })}
      </div>
    </section>
  );
}

/** The names of all, those that most trials have first; files of no step, such as the best weights, are not compared. */
function namesOf(found: readonly IFound[]): readonly string[] {
  const counts = new Map<string, number>();
  for (const { media } of found) {
    for (const [name, steps] of media) {
      if (steps.some(({ step }) => step !== null)) {
        counts.set(name, (counts.get(name) ?? 0) + 1);
      }
    }
  }
  return [...counts].sort(([, a], [, b]) => b - a).map(([name]) => name);
}
