import { SYSTEM, groups, systemLabel } from './groups';

const told = (...names: string[]) => groups(names).map(({ prefix, names }) => [prefix, ...names]);

test('metrics are grouped by what is before a slash, or by the data before an underscore', () => {
  expect(told('val/acc', 'train/loss', 'val/loss', 'train_acc', 'lr')).toEqual([
    ['val', 'val/acc', 'val/loss'],
    ['train', 'train/loss', 'train_acc'],
    ['', 'lr']
  ]);
});

test('other underscores and slashes at an end are part of the name', () => {
  expect(told('grad_norm', 'learning_rate', 'val_', '/loss', 'loss/')).toEqual([
    ['', 'grad_norm', 'learning_rate', 'val_', '/loss', 'loss/']
  ]);
});

test('deeper names are grouped by their first part', () => {
  expect(told('val/digits/acc', 'val/digits/loss')).toEqual([['val', 'val/digits/acc', 'val/digits/loss']]);
});

test('without metrics there are no groups', () => {
  expect(told()).toEqual([]);
});

test('a measure of processes has its unit in its name, and no metric can be folded with it', () => {
  expect(systemLabel({ name: 'memory', title: 'memory', unit: 'GB' })).toBe('memory (GB)');
  expect(groups(['system/cpu', 'system/', SYSTEM]).map(({ prefix }) => prefix)).not.toContain(SYSTEM);
});
