import cases from '../../../tests/fixtures/numbers.json';

import { aligned, parted, shortened, shown, tickLabels } from './numbers';

test('numbers are short', () => {
  expect([0, 1, 0.97777, 123456, 1234567, 0.00012, -2.5].map(shown)).toEqual([
    '0',
    '1',
    '0.9778',
    '123456',
    '1.235e6',
    '1.2e−4',
    '−2.5'
  ]);
  expect([null, 'nan', 'inf', '-inf'].map(value => shown(value as null))).toEqual(['–', 'nan', '∞', '−∞']);
});

test.each(cases as [number, string][])(
  '%p is shown as in the notebook and the terminal, but for the minus',
  (value, text) => {
    expect(shown(value)).toBe(text.replaceAll('-', '−'));
  }
);

test('what is not whole does not look whole', () => {
  expect([0.999952, 1.00002, -0.99996, 1234.56, 0.99999994, 41.9999].map(shown)).toEqual([
    '0.99995',
    '1.00002',
    '−0.99996',
    '1234.6',
    '0.9999999',
    '41.9999'
  ]);
});

test.each<[string, number[], string[]]>([
  ['whole numbers', [1, 27, 100000000], ['1', '27', '100000000']],
  ['equal decimals', [0.5, 0.97777, 1], ['0.5000', '0.9778', '1.0000']],
  ['no more than are needed', [0.1, 0.01, 0.25], ['0.10', '0.01', '0.25']],
  ['one that is nearly whole', [0.5, 0.999952, 1], ['0.50000', '0.99995', '1.00000']],
  ['small beside large', [0.00012, 0.31623], ['0.00012', '0.31623']],
  ['hundreds', [123.456, 7.25, -3], ['123.5', '7.3', '−3.0']],
  ['not finite', [0.25, NaN, Infinity], ['0.25', 'nan', '∞']],
  ['nothing', [], []]
])('a column of %s', (_, values, texts) => {
  const format = aligned(values);
  expect(values.map(value => format.of(value))).toEqual(texts);
});

test('points stay below each other where powers of ten are needed', () => {
  const values = [1.2e-7, 0.0316, 2, 1234567.5];
  const texts = values.map(aligned(values).of);
  expect(texts.map(text => text.trimEnd())).toEqual(['1.2e−7', '0.0316', '2', '1.235e6']);
  const tails = texts.map(
    text => text.length - (text.search(/[.e\u2007]/) < 0 ? text.length : text.search(/[.e\u2007]/))
  );
  expect(new Set(tails).size).toBe(1);
});

test('equal formats have equal keys', () => {
  expect(aligned([0.5, 0.25]).key).toBe(aligned([0.75, 0.1]).key);
  expect(aligned([0.5, 0.25]).key).not.toBe(aligned([0.5, 0.125]).key);
});

test('labels of ticks are exact and have equal decimals', () => {
  expect(tickLabels([0.9, 0.95, 1])).toEqual(['0.90', '0.95', '1.00']);
  expect(tickLabels([0.9995, 0.9996])).toEqual(['0.9995', '0.9996']);
  expect(tickLabels([0.99951, 0.99952])).toEqual(['0.99951', '0.99952']);
  expect(tickLabels([0, 500, 1000])).toEqual(['0', '500', '1000']);
  expect(tickLabels([-0.2, 0, 0.2])).toEqual(['−0.2', '0', '0.2']);
  expect(tickLabels([3])).toEqual(['3']);
  expect(tickLabels([])).toEqual([]);
});

test('a version is never cut off', () => {
  expect(parted('digits@12')).toEqual(['digits', '@12']);
  expect(parted('me@home')).toEqual(['me@home', '']);
  expect(shortened('digits@12', 20)).toBe('digits@12');
  expect(shortened('a-very-long-name-of-an-experiment@12', 16)).toBe('a-very-long-…@12');
});
