jest.mock('@jupyterlab/coreutils', () => ({}));
jest.mock('@jupyterlab/services', () => ({}));

import { IExperiment } from '../server/api';
import { Sort, arranged, sorted } from './arrange';

const row = (label: string, fields: object = {}) =>
  ({
    id: label,
    name: label.split('@')[0],
    label,
    state: 'completed',
    goal: null,
    best: null,
    ...fields
  }) as IExperiment;
const of = (metric: string, mode: string, value: number) => ({ goal: { metric, mode }, best: { value } });

const ROWS = [
  row('digits@3', of('acc', 'max', 0.8)),
  row('words@1', { state: 'failed' }),
  row('digits@2', of('acc', 'max', 0.9)),
  row('bert@1', { state: 'running', ...of('loss', 'min', 0.5) }),
  row('digits@1', { state: 'paused', ...of('acc', 'max', 0.7) }),
  row('Anna@1', of('loss', 'min', 0.2))
];
const labels = (rows: readonly IExperiment[]) => rows.map(({ label }) => label);

test.each<[Sort, string[]]>([
  ['newest', ['digits@3', 'words@1', 'digits@2', 'bert@1', 'digits@1', 'Anna@1']],
  ['name', ['Anna@1', 'bert@1', 'digits@3', 'digits@2', 'digits@1', 'words@1']],
  ['state', ['words@1', 'digits@1', 'bert@1', 'digits@3', 'digits@2', 'Anna@1']],
  // By metric, each the way its goal goes; those without a value last.
  ['best', ['digits@2', 'digits@3', 'digits@1', 'Anna@1', 'bert@1', 'words@1']]
])('sorted by %s', (sort, expected) => {
  expect(labels(sorted(ROWS, sort))).toEqual(expected);
});

test('versions are below the first of them; folded ones are left out, but not those that are under way or needed', () => {
  const folded = arranged(
    ROWS,
    'newest',
    () => false,
    () => false
  );
  expect(labels(folded.rows)).toEqual(['digits@3', 'digits@1', 'words@1', 'bert@1', 'Anna@1']);
  expect([...folded.heads]).toEqual([['digits@3', { name: 'digits', count: 2, open: false }]]);
  expect([...folded.below]).toEqual(['digits@2', 'digits@1']);
  const needed = arranged(
    ROWS,
    'newest',
    () => false,
    ({ label }) => label === 'digits@2'
  );
  expect(labels(needed.rows).slice(0, 3)).toEqual(['digits@3', 'digits@2', 'digits@1']);
  const best = arranged(
    ROWS,
    'best',
    name => name === 'digits',
    () => false
  );
  expect(labels(best.rows)).toEqual(['digits@2', 'digits@3', 'digits@1', 'Anna@1', 'bert@1', 'words@1']);
  expect(best.heads.get('digits@2')).toEqual({ name: 'digits', count: 2, open: true });
});
