jest.mock('@jupyterlab/apputils', () => ({}));
jest.mock('@jupyterlab/notebook', () => ({}));
jest.mock('@lumino/widgets', () => ({}));
jest.mock('../tokens', () => ({}));

import { trainCell } from './dataframe';
import { forkCell } from './fork';

test('a fork is one line where the cell that trained is elsewhere', () => {
  expect(forkCell('digits@1/t0003:27', null, { lr: 0.1 })).toBe('%%train digits-b --from digits@1/t0003:27');
});

test('a fork of a cell at hand is that cell with the values of the trial', () => {
  const cell = [
    '%%train digits --goal max acc --steps 1-27',
    '#| seed: 3',
    'lr: float = loguniform(1e-4, 1.0)',
    'opt = choice("sgd", "adam")',
    'width = choice(',
    '    32, 64)',
    'lr == 1',
    'for epoch in trial.steps():',
    '    lr = lr * 2'
  ].join('\n');
  expect(forkCell('digits@1/t0003:27', cell, { lr: 0.1, opt: 'sgd', width: 64 }).split('\n')).toEqual([
    '%%train digits-b --from digits@1/t0003:27',
    'lr = 0.1',
    'opt = "sgd"',
    'width = choice(',
    '    32, 64)',
    'lr == 1',
    'for epoch in trial.steps():',
    '    lr = lr * 2'
  ]);
});

test('a fork has the exact values of the trial', () => {
  const cell = ['%%train digits', 'seed = randint(0, 2**62)', 'dropout = choice(0.0, 1.0)'].join('\n');
  const written = { seed: '1152921504606846979', dropout: '1.0' };
  expect(forkCell('digits@1/t0003:27', cell, { seed: 1152921504606847000, dropout: 1 }, written).split('\n')).toEqual([
    '%%train digits-b --from digits@1/t0003:27',
    'seed = 1152921504606846979',
    'dropout = 1.0'
  ]);
});

test('a name with a space is one word of the line, and its cell is found', () => {
  expect(forkCell('two words@1/t0003:27', null, {})).toBe('%%train "two words-b" --from "two words@1/t0003:27"');
  const cells = ['%%train two', '%%train "two words" --goal max acc', "%%train 'a b'", '%%train --goal max acc'];
  expect(['two@1', 'two words@2', 'a b@1', 'c@1'].map(label => trainCell(cells, label))).toEqual([0, 1, 2, null]);
});
