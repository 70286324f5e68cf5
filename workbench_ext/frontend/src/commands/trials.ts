/** Commands for single trials, beside those that trials share with experiments. Law: they decide nothing. */

import { TranslationBundle } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { ENDED, IExperiment, ITrial } from '../server/api';
import { canPause, canResume, hasEnded } from '../table/bulk';
import { Requests } from '../server/requests';
import { ITargets } from './commands';
import { confirmed } from './dialogs';
import { trialsNamed } from './named';

type Args = ReadonlyPartialJSONObject;

export function addTrialCommands(
  commands: CommandRegistry,
  targets: ITargets,
  requests: Requests,
  trans: TranslationBundle
): void {
  const rowOf = (args: Args): IExperiment | undefined => {
    const found = targets.of(args).map(ref => targets.row(ref));
    return found.length === 1 ? found[0] : undefined;
  };
  /** The trials of a command: several that are ticked, or one. */
  const numbersOf = ({ numbers, trial }: Args): readonly number[] =>
    Array.isArray(numbers) ? numbers.map(Number) : typeof trial === 'number' ? [trial] : [];
  /** Whether all of them are of a kind, as far as is known. */
  const all = (args: Args, fits: (trial: ITrial) => boolean): boolean => {
    const row = rowOf(args);
    const numbers = numbersOf(args);
    return (
      row !== undefined &&
      numbers.length > 0 &&
      numbers.every(number => {
        const trial = targets.trial(row, number);
        return trial === undefined || fits(trial);
      })
    );
  };

  const asking = (kind: 'pause' | 'resume') => async (args: Args) => {
    const row = rowOf(args)!;
    for (const trial of numbersOf(args)) {
      if ((await requests.ask(row.store, kind, { experiment: row.id, trial })) === null) {
        return;
      }
    }
  };
  const isGoing = (args: Args) => !ENDED.has(rowOf(args)?.state ?? '');

  commands.addCommand('workbench:pause-trial', {
    label: trans.__('Pause This Trial'),
    caption: trans.__('Save it and free its slot; the other trials go on'),
    isEnabled: args => isGoing(args) && all(args, canPause),
    execute: asking('pause')
  });

  commands.addCommand('workbench:resume-trial', {
    label: trans.__('Resume This Trial'),
    caption: trans.__('Continue a trial that was paused or stopped by a person'),
    isEnabled: args => isGoing(args) && all(args, canResume),
    execute: asking('resume')
  });

  commands.addCommand('workbench:delete-trials', {
    label: args =>
      numbersOf(args).length > 1 ? trans.__('Delete Their Files …') : trans.__('Delete This Trial’s Files …'),
    caption: trans.__('Delete checkpoints and files; curves and results are kept'),
    isEnabled: args => all(args, hasEnded),
    execute: async args => {
      const row = rowOf(args)!;
      const numbers = numbersOf(args);
      const what = trialsNamed(row.label, numbers, trans);
      const sure = await confirmed({
        title: trans.__('Delete the files of %1?', what),
        body: trans.__('Checkpoints and files will be deleted. Curves, configurations and results are kept.'),
        okLabel: trans.__('Delete'),
        trans
      });
      if (sure) {
        await requests.deleteTrials(row, numbers, what);
      }
    }
  });
}
