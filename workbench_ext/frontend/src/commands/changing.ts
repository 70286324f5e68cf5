/** Commands that change a store. Law: they are off where nothing can be changed, before the server refuses them. */

import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';

const CHANGING: ReadonlySet<string> = new Set(
  [
    'stop',
    'pause',
    'resume',
    'rename',
    'tag',
    'note',
    'replay',
    'pin',
    'delete',
    'undo-delete',
    'clean-up',
    'start-engine',
    'extend',
    'verify',
    'pause-trial',
    'resume-trial',
    'delete-trials'
  ].map(name => `workbench:${name}`)
);

/** The registry, as those get it who add commands. isFixed: whether nothing can be changed in the store of a command. */
export function changing(
  commands: CommandRegistry,
  isFixed: (args: ReadonlyPartialJSONObject) => boolean
): CommandRegistry {
  return Object.create(commands, {
    addCommand: {
      value: (id: string, options: CommandRegistry.ICommandOptions) => {
        const { isEnabled = () => true } = options;
        const isOn = (args: ReadonlyPartialJSONObject) => !isFixed(args) && isEnabled.call(undefined, args);
        return commands.addCommand(id, CHANGING.has(id) ? { ...options, isEnabled: isOn } : options);
      }
    }
  }) as CommandRegistry;
}
