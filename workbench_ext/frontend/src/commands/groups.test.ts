jest.mock('@lumino/widgets', () => ({ Menu: class {} }));
import { GROUPS, entries } from './groups';

const commands = (known: readonly string[], hidden: readonly string[] = []) => ({
  hasCommand: (id: string) => known.includes(id),
  isVisible: (id: string) => !hidden.includes(id)
});

test('a menu has only commands that exist and are visible, and no empty group', () => {
  expect(
    entries(commands(['workbench:stop', 'workbench:delete', 'workbench:undo-delete'], ['workbench:undo-delete']), {})
  ).toEqual([['workbench:stop'], ['workbench:delete']]);
  expect(entries(commands([]), {})).toEqual([]);
});

test('no command is in two groups', () => {
  const all = GROUPS.flat();
  expect(new Set(all).size).toBe(all.length);
});
