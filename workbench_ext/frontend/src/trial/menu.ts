/** The menu of a trial, wherever it is shown. Law: it offers only available commands. */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Clipboard } from '@jupyterlab/apputils';
import { Menu } from '@lumino/widgets';

import { IContext } from '../experiment/context';
import { IWorkbench } from '../tokens';

/** Offered in this order, if the command exists. */
const TRIAL_COMMANDS: readonly string[] = [
  'workbench:open-trial',
  'workbench:pause-trial',
  'workbench:resume-trial',
  'workbench:stop',
  'workbench:pin',
  'workbench:replay',
  'workbench:verify',
  'workbench:fork',
  'workbench:copy-configuration',
  'workbench:copy-reference',
  'workbench:copy-fork',
  'workbench:select-to-notebook',
  'workbench:delete-trials'
];

/** The commands that need nothing but the trial itself. */
export const trialCommands: JupyterFrontEndPlugin<void> = {
  id: 'workbench-ext:trial-commands',
  description: 'Copies what a trial is, as text for a cell',
  autoStart: true,
  requires: [IWorkbench],
  activate: ({ commands }: JupyterFrontEnd, { trans }: IWorkbench) => {
    commands.addCommand('workbench:copy-configuration', {
      label: trans.__('Copy Configuration'),
      isVisible: args => typeof args.configuration === 'string',
      execute: args => Clipboard.copyToSystem(String(args.configuration))
    });
    commands.addCommand('workbench:copy-reference', {
      label: args => trans.__('Copy %1', String(args.reference ?? '')),
      isVisible: args => typeof args.reference === 'string',
      execute: args => Clipboard.copyToSystem(String(args.reference))
    });
    commands.addCommand('workbench:copy-fork', {
      label: trans.__('Copy Fork Option'),
      caption: trans.__('For a %%train line: it starts from this trial’s newest checkpoint'),
      isVisible: args => typeof args.reference === 'string',
      execute: args => Clipboard.copyToSystem(`--from ${word(String(args.reference))}`)
    });
  }
};

/** Open the menu of a trial at a place of the window. The trials selected with it are inserted into the notebook. */
export function openTrialMenu(
  context: Pick<IContext, 'commands' | 'experiment' | 'selection'>,
  number: number,
  left: number,
  top: number
): void {
  const { commands, experiment, selection } = context;
  const trial = experiment.trials.get(number);
  const label = experiment.row?.label ?? experiment.ref;
  const chosen = selection.trials.has(number) ? [...selection.trials] : [number];
  const args = {
    ...experiment.named,
    trial: number,
    label,
    trials: chosen,
    reference: `${label}/${trial?.label ?? number}`,
    configuration: assignments(trial?.configuration ?? {}, trial?.written)
  };
  const menu = new Menu({ commands });
  for (const command of TRIAL_COMMANDS) {
    if (commands.hasCommand(command)) {
      menu.addItem({ command, args });
    }
  }
  menu.aboutToClose.connect(() => {
    // After its command has run, which it asks the menu for.
    requestAnimationFrame(() => menu.dispose());
  });
  menu.open(left, top);
}

/**
 * A configuration as lines of Python that assign it.
 *
 * written: the values that JavaScript has no number for, such as 1.0, as the server wrote them.
 */
export function assignments(
  configuration: Readonly<Record<string, unknown>>,
  written: Readonly<Record<string, string>> = {}
): string {
  return Object.entries(configuration)
    .map(([name, value]) => `${name} = ${Object.hasOwn(written, name) ? written[name]! : python(value)}`)
    .join('\n');
}

/** A word of a `%%train` line: a name may have spaces. */
export function word(text: string): string {
  return /\s/.test(text) ? JSON.stringify(text) : text;
}

/** A value as Python reads it. */
export function python(value: unknown): string {
  if (Array.isArray(value)) {
    return `[${value.map(python).join(', ')}]`;
  }
  if (typeof value === 'object' && value !== null) {
    const pairs = Object.entries(value).map(([key, inner]) => `${JSON.stringify(key)}: ${python(inner)}`);
    return `{${pairs.join(', ')}}`;
  }
  if (typeof value === 'boolean') {
    return value ? 'True' : 'False';
  }
  return value === null || value === undefined ? 'None' : JSON.stringify(value);
}
