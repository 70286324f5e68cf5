import { Cell, columnTest, parse } from './filter';

const COLUMNS = ['trial', 'state', 'lr', 'opt', 'val_acc'];
const ROWS: readonly Record<string, Cell>[] = [
  { trial: 't0000', state: 'completed', lr: 0.001, opt: 'adam', val_acc: 0.97 },
  { trial: 't0001', state: 'running', lr: 0.01, opt: 'sgd', val_acc: null },
  { trial: 't0002', state: 'stopped', lr: 0.1, opt: 'adamw', val_acc: 0.5 },
  { trial: 't0003', state: 'failed', lr: 1, opt: 'sgd', val_acc: NaN }
];

function found(text: string): unknown[] {
  const { test } = parse(text, COLUMNS);
  return ROWS.filter(row => test!(column => row[column])).map(row => row.trial);
}

test.each<[string, string[]]>([
  ['', ['t0000', 't0001', 't0002', 't0003']],
  ['lr < 0.01', ['t0000']],
  ['lr<=1e-2', ['t0000', 't0001']],
  ['lr ≥ .1', ['t0002', 't0003']],
  ['LR > 0.001 and lr < 1', ['t0001', 't0002']],
  ['lr = 0.01..0.5', ['t0001', 't0002']],
  ['lr=..0.05', ['t0000', 't0001']],
  ['state:run', ['t0001']],
  ['state = failed or lr = 0.001', ['t0000', 't0003']],
  ['opt == adam', ['t0000']],
  ['opt != "sgd"', ['t0000', 't0002']],
  ['adam', ['t0000', 't0002']],
  ['!adam', ['t0001', 't0003']],
  ['!opt=sgd', ['t0000', 't0002']],
  ['sgd val_acc > 0', []],
  ['val_acc > 0.9', ['t0000']],
  ["'no such thing'", []]
])('%s', (text, trials) => {
  expect(found(text)).toEqual(trials);
});

test('what cannot be meant is told', () => {
  expect(parse('speed > 3', COLUMNS).error).toEqual({ word: 'speed', why: 'column' });
  expect(parse('lr < fast', COLUMNS).error).toEqual({ word: 'fast', why: 'number' });
  expect(parse('lr <', COLUMNS).error).toEqual({ word: '<', why: 'value' });
  expect(parse('< 3', COLUMNS).error).toEqual({ word: '<', why: 'column' });
  expect(parse('!', COLUMNS).error).toEqual({ word: '!', why: 'value' });
});

test.each<[string, Cell, boolean]>([
  ['< 0.01', 0.001, true],
  ['<0.01', 0.1, false],
  ['0.1..0.5', 0.3, true],
  ['0.1..0.5', 0.6, false],
  ['ada', 'adam', true],
  ['=ada', 'adam', false],
  ['!= sgd', 'adam', true],
  ['32', 32, true],
  ['>', 3, true],
  ['< 3', 'text', false],
  ['> 0', null, false],
  // As Python prints them, and as the panel shows them.
  ['= inf', Infinity, true],
  ['!= -inf', -Infinity, false],
  ['< inf', 3, true],
  ['= −∞', -Infinity, true],
  ['< 1.542e−5', 1e-5, true],
  ['−2..inf', -1, true],
  ['= "inf"', 'inf', false]
])('a column: %s of %s', (text, cell, kept) => {
  expect(columnTest(text)!(cell)).toBe(kept);
});

test('a column that is compared with no number has no meaning', () => {
  expect(columnTest('< fast')).toBeNull();
});

test('of two columns that differ in capitals the one that was written is tested', () => {
  const row = (column: string) => ({ lr: 1, LR: 5 })[column];
  const passes = (text: string) => parse(text, ['lr', 'LR']).test!(row);
  expect(['lr < 2', 'LR < 2', 'Lr < 2'].map(passes)).toEqual([true, false, true]);
});
