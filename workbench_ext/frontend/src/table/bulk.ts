/** What can be done with several trials at once, and why something cannot. Law: pure; it decides on states only. */

import { TranslationBundle } from '@jupyterlab/translation';

import { ENDED, IExperiment, ITrial } from '../server/api';

/** In the order of their buttons. */
export const ACTIONS = ['stop', 'pause', 'resume', 'pin', 'delete'] as const;
export type Action = (typeof ACTIONS)[number];

/** Why an action is not possible for all of these trials; null if it is. */
export function refusal(
  action: Action,
  trials: readonly ITrial[],
  experiment: Pick<IExperiment, 'label' | 'state'>,
  trans: TranslationBundle
): string | null {
  const [of, why] = RULES[action];
  const against = trials.filter(trial => !of(trial));
  if (against.length > 0) {
    return why(named(against, trans), against.length, trans);
  }
  return STEERING.has(action) && ENDED.has(experiment.state)
    ? trans.__('%1 is %2: nothing of it trains.', experiment.label, experiment.state)
    : null;
}

/** What needs an experiment that goes on. */
const STEERING: ReadonlySet<Action> = new Set(['stop', 'pause', 'resume']);

type Rule = readonly [
  fits: (trial: ITrial) => boolean,
  why: (names: string, count: number, trans: TranslationBundle) => string
];

export const hasEnded = ({ state }: ITrial): boolean => ENDED.has(state);
/** Whether it has not ended, and no person has paused it. */
export const canPause = (trial: ITrial): boolean => !hasEnded(trial) && trial.state !== 'stopping' && !trial.held;
/** Whether a person has paused or stopped it. */
export const canResume = ({ held, asked }: ITrial): boolean => held === true || asked === true;

/** For which trials each action is possible, and what is said of the others. */
const RULES: Readonly<Record<Action, Rule>> = {
  stop: [
    trial => !hasEnded(trial) && trial.state !== 'stopping',
    (names, count, trans) =>
      trans._n('%2 has ended or is ending already.', '%2 have ended or are ending already.', count, names)
  ],
  pause: [
    canPause,
    (names, count, trans) =>
      trans._n('%2 has ended or is paused already.', '%2 have ended or are paused already.', count, names)
  ],
  resume: [
    canResume,
    (names, count, trans) =>
      trans._n('%2 was not paused or stopped by a person.', '%2 were not paused or stopped by a person.', count, names)
  ],
  pin: [() => true, () => ''],
  delete: [
    hasEnded,
    (names, count, trans) =>
      trans._n('%2 has not ended: stop it first.', '%2 have not ended: stop them first.', count, names)
  ]
};

/** `t0001, t0004 and 3 more`. */
export function named(trials: readonly { readonly label: string }[], trans: TranslationBundle): string {
  const first = trials.slice(0, MOST).map(({ label }) => label);
  const rest = trials.length - first.length;
  return rest > 0 ? trans.__('%1 and %2 more', first.join(', '), rest) : first.join(', ');
}

/** Names that a tooltip has room for. */
const MOST = 4;
