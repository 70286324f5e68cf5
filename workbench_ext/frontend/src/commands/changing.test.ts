import { CommandRegistry } from '@lumino/commands';

import { changing } from './changing';

test('what changes a store is off in one that cannot be changed, and all else is as it was', () => {
  const commands = new CommandRegistry();
  const registry = changing(commands, ({ store }) => store === 'published');
  const execute = () => undefined;
  registry.addCommand('workbench:rename', { execute, isEnabled: ({ ok }) => ok === true });
  registry.addCommand('workbench:pin', { execute });
  registry.addCommand('workbench:copy-label', { execute });
  const on = (store: string) =>
    ['rename', 'pin', 'copy-label'].map(name => registry.isEnabled(`workbench:${name}`, { store, ok: true }));
  expect(on('mine')).toEqual([true, true, true]);
  expect(on('published')).toEqual([false, false, true]);
  expect(commands.isEnabled('workbench:rename', { store: 'mine', ok: false })).toBe(false);
});
