/** The menu of an experiment, wherever it is opened: by a right click, or by a button. Law: a table. */

import { CommandRegistry } from '@lumino/commands';
import { ReadonlyJSONObject } from '@lumino/coreutils';
import { Menu } from '@lumino/widgets';

/** An experiment's menu, in this order; a line between the groups. */
export const GROUPS: readonly (readonly string[])[] = [
  ['workbench:open', 'workbench:compare-picked', 'workbench:open-notebook'],
  ['workbench:pause', 'workbench:resume', 'workbench:stop', 'workbench:extend', 'workbench:replay', 'workbench:verify'],
  ['workbench:rename', 'workbench:tag', 'workbench:note', 'workbench:pin', 'workbench:copy-label'],
  ['workbench:clean-up', 'workbench:delete', 'workbench:undo-delete']
];

/** Menus that act on the sidebar's selection, whatever page is shown. */
export const FROM_SIDEBAR = { from: 'sidebar' };

/** What a menu shows, with a line between the groups: only what exists, and can be seen now. */
export function entries(
  commands: Pick<CommandRegistry, 'hasCommand' | 'isVisible'>,
  args: ReadonlyJSONObject
): readonly (readonly string[])[] {
  return GROUPS.map(group =>
    group.filter(command => commands.hasCommand(command) && commands.isVisible(command, args))
  ).filter(group => group.length > 0);
}

/** Open the menu of the experiments that `args` name, below a button. */
export function openExperimentMenu(commands: CommandRegistry, args: ReadonlyJSONObject, button: HTMLElement): void {
  const menu = new Menu({ commands });
  entries(commands, args).forEach((group, at) => {
    if (at > 0) {
      menu.addItem({ type: 'separator' });
    }
    for (const command of group) {
      menu.addItem({ command, args });
    }
  });
  menu.aboutToClose.connect(() => {
    // After its command has run, which it asks the menu for.
    requestAnimationFrame(() => {
      menu.dispose();
      if (document.activeElement === document.body) {
        button.focus();
      }
    });
  });
  const { left, bottom } = button.getBoundingClientRect();
  menu.open(left, bottom);
}
