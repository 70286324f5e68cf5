/** Dialogs for extending a search and for checking how a trial resumes. Law: input is checked before it is sent. */

import { TranslationBundle } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { IExperiment } from '../server/api';
import { ITargets } from './commands';
import { askFields } from './dialogs';
import { Requests, isDone } from '../server/requests';
import { tell } from '../notices';

/** An extension of a search: more trials, the new last step, more seconds. */
export interface IMore {
  readonly trials?: number;
  readonly last?: number;
  readonly seconds?: number;
}

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, min: 60, h: 3600, d: 86400 };

/** `90 s`, `30m` or `1.5 h` in seconds; null for anything else. */
export function readSpan(text: string): number | null {
  const match = /^(\d+(?:\.\d+)?)\s*(s|min|m|h|d)$/.exec(text.trim());
  const seconds = match ? Number(match[1]) * UNITS[match[2]!]! : 0;
  return seconds > 0 && seconds < 1e9 ? seconds : null;
}

/** A whole number of at least one; null for anything else. */
export function readWhole(text: string): number | null {
  const found = /^\d{1,9}$/.test(text.trim()) ? Number(text) : 0;
  return found >= 1 ? found : null;
}

/** The parsed extension, or what is wrong with it. */
export function readMore(
  typed: Readonly<Record<'trials' | 'steps' | 'time', string>>,
  trans: TranslationBundle
): IMore | string {
  const { trials, steps, time } = typed;
  if (!trials.trim() && !steps.trim() && !time.trim()) {
    return trans.__('Enter more trials, steps or time.');
  }
  const more: { trials?: number; last?: number; seconds?: number } = {};
  for (const [key, given] of [
    ['trials', trials],
    ['last', steps]
  ] as const) {
    if (given.trim()) {
      const read = readWhole(given);
      if (read === null) {
        return trans.__('%1 was given; expected a whole number, such as 20.', given.trim());
      }
      more[key] = read;
    }
  }
  if (time.trim()) {
    const seconds = readSpan(time);
    if (seconds === null) {
      return trans.__('%1 was given; expected a time, such as 30m or 2h.', time.trim());
    }
    more.seconds = seconds;
  }
  return more;
}

/** The parsed step up to which a trial is checked (null: as far as needed), or what is wrong with it. */
export function readUpTo(
  text: string,
  done: number | null,
  trans: TranslationBundle
): { step: number | null } | string {
  const step = readWhole(text);
  if (!text.trim()) {
    return { step: null };
  }
  if (step === null || (done !== null && step > done)) {
    return done === null
      ? trans.__('%1 was given; expected a step from 1 on.', text.trim())
      : trans.__('%1 was given; expected a step from 1 to %2.', text.trim(), done);
  }
  return { step };
}

export function addGoingOn(
  commands: CommandRegistry,
  targets: ITargets,
  requests: Requests,
  trans: TranslationBundle
): void {
  const only = (args: ReadonlyPartialJSONObject): IExperiment | undefined => {
    const found = targets.of(args).map(ref => targets.row(ref));
    return found.length === 1 ? found[0] : undefined;
  };
  const numberOf = (args: ReadonlyPartialJSONObject): number | undefined =>
    typeof args.trial === 'number' ? args.trial : only(args)?.best?.number;

  commands.addCommand('workbench:extend', {
    label: trans.__('Extend …'),
    caption: trans.__('Continue with more trials, steps or time; earlier decisions stay'),
    isEnabled: args => {
      const row = only(args);
      return row !== undefined && row.state !== 'stopping' && !row.deleting;
    },
    execute: async args => {
      const row = only(args)!;
      const more = await askFields({
        title: trans.__('Extend %1', row.label),
        fields: {
          trials: { label: trans.__('More trials'), example: '20' },
          steps: { label: trans.__('Up to step'), example: '81' },
          time: { label: trans.__('More time'), example: '2h' }
        },
        read: typed => readMore(typed, trans),
        okLabel: trans.__('Extend'),
        trans
      });
      const answer = more && (await requests.ask(row.store, 'extend', { experiment: row.id, ...more }));
      if (isDone(answer)) {
        tell('success', trans.__('%1 continues.', row.label));
      }
    }
  });

  commands.addCommand('workbench:verify', {
    label: args => (typeof args.trial === 'number' ? trans.__('Verify …') : trans.__('Verify Its Best Trial …')),
    caption: trans.__('Train it again without a break, and check that resuming gave the same bits'),
    isEnabled: args => numberOf(args) !== undefined,
    execute: async args => {
      const row = only(args)!;
      const trial = numberOf(args)!;
      const name = `${row.label}/t${String(trial).padStart(4, '0')}`;
      const done = targets.trial(row, trial)?.step ?? null;
      const upTo = await askFields({
        title: trans.__('Verify %1', name),
        fields: { step: { label: trans.__('Up to step (empty: as far as needed)'), example: '' } },
        read: ({ step }) => readUpTo(step, done, trans),
        okLabel: trans.__('Verify'),
        trans
      });
      if (upTo === null) {
        return;
      }
      const answer = await requests.ask(row.store, 'verify', {
        experiment: row.id,
        trial,
        ...(upTo.step === null ? {} : { step: upTo.step })
      });
      if (isDone(answer)) {
        tell('success', trans.__('%1 is checked in a slot that no trial needs; its page shows the result.', name));
      }
    }
  });
}
