jest.mock('@jupyterlab/apputils', () => ({}));
jest.mock('@jupyterlab/notebook', () => ({}));
jest.mock('../tokens', () => ({}));

import { selection, trainCell } from './dataframe';

test('the cell gives the trials as a DataFrame, by number', () => {
  expect(selection('digits@2', [7, 3])).toBe(
    'import workbench as wb\n\nselected = wb.open("digits@2").trials.loc[["t0003", "t0007"]]\nselected'
  );
});

test('a store that does not lie beside the notebook is named', () => {
  expect(selection('digits@2', [7], '/home/ada/sub/.workbench')).toContain(
    'wb.open("digits@2", store="/home/ada/sub/.workbench").trials.loc[["t0007"]]'
  );
});

test('many trials stand in lines that can be read', () => {
  const lines = selection(
    'digits@2',
    Array.from({ length: 30 }, (_, k) => k)
  ).split('\n');
  expect(lines.every(line => line.length <= 88)).toBe(true);
  expect(lines.join('').match(/"t\d{4}"/g)).toHaveLength(30);
});

test('the train cell is found by its name', () => {
  const cells = ['import torch', '%%train digits --goal max acc\nlr = 1', 'x', '%%train other'];
  expect(trainCell(cells, 'digits@2')).toBe(1);
  expect(trainCell(cells, 'digit@1')).toBeNull();
  expect(trainCell(['%%train --goal max acc'], 'notebook@1')).toBeNull();
});
