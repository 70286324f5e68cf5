import { IComparison } from '../server/api';
import { alike } from './alike';
import { apart, bestOf } from './rows';

test('rows in which trials differ come apart from those that are equal', () => {
  const { differing, equal } = apart<unknown>([
    { lr: 0.1, optimizer: 'sgd', sizes: [1, 2] },
    { lr: 0.2, optimizer: 'sgd', sizes: [1, 2] },
    { lr: 0.1, optimizer: 'sgd', sizes: [1, 2], momentum: null }
  ]);
  expect(differing.map(({ name }) => name)).toEqual(['lr', 'momentum']);
  expect(equal.map(({ name }) => name)).toEqual(['optimizer', 'sizes']);
  expect(differing[0]!.values).toEqual([0.1, 0.2, 0.1]);
  // What a trial does not have is another thing than null.
  expect(differing[1]!.values).toEqual([undefined, undefined, null]);
});

test('the best are marked only where values differ, and diverged ones never', () => {
  expect(bestOf([0.5, 0.9, NaN, 0.9], 'max')).toEqual([1, 3]);
  expect(bestOf([0.5, -Infinity, 0.9], 'min')).toEqual([0]);
  expect(bestOf([0.5, 0.5], 'max')).toEqual([]);
  expect(bestOf([0.5, NaN], 'max')).toEqual([]);
});

const comparison = (ref: string, kinds: readonly string[], partial: readonly string[] = []): IComparison =>
  ({
    b: { ref },
    sections: kinds.map((kind, at) => ({ kind, likely: at + 1, items: [{ name: kind === 'seeds' ? 'trial' : 'x' }] })),
    partial
  }) as unknown as IComparison;

test('trials with the same differences are told together, and configurations are in the table', () => {
  const found = alike([
    comparison('d@1/t0001', ['configuration', 'seeds']),
    comparison('e@1/t0000', ['configuration', 'code']),
    comparison('d@1/t0002', []),
    comparison('e@1/t0001', ['code']),
    comparison('f@1/t0000', [], ['f@1 has no snapshot'])
  ]);
  expect(found.map(({ refs }) => refs)).toEqual([
    ['d@1/t0001', 'd@1/t0002'],
    ['e@1/t0000', 'e@1/t0001'],
    ['f@1/t0000']
  ]);
  expect(found[1]!.found.sections.map(({ kind }) => kind)).toEqual(['code']);
});
