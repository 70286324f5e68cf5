jest.mock('@jupyterlab/coreutils', () => ({}));
jest.mock('@jupyterlab/services', () => ({}));

import { IExperiment } from '../server/api';
import { EVERYTHING, filtered, tagsOf } from './filter';

const row = (label: string, fields: object = {}) =>
  ({ label, state: 'completed', goal: { metric: 'val_acc', mode: 'max' }, ...fields }) as IExperiment;

const ROWS = [
  row('digits@2', { state: 'running', tags: ['paper', 'wide'], note: 'Smaller batches' }),
  row('digits@1', { tags: ['paper'] }),
  row('resnet@1', { state: 'failed', notebook: '/lab/vision.ipynb' })
];

test.each([
  [{}, ['digits@2', 'digits@1', 'resnet@1']],
  [{ text: 'DIGITS' }, ['digits@2', 'digits@1']],
  [{ text: ' batches  smaller ' }, ['digits@2']],
  [{ text: 'vision' }, ['resnet@1']],
  [{ text: 'paper resnet' }, []],
  [{ state: 'active' }, ['digits@2']],
  [{ state: 'failed' }, ['resnet@1']],
  [{ tag: 'paper', state: 'completed' }, ['digits@1']],
  [{ tag: 'pap' }, []]
])('%j finds %j', (given, found) => {
  expect(filtered(ROWS, { ...EVERYTHING, ...given }).map(({ label }) => label)).toEqual(found);
});

test('tags are said once, in order; rows of earlier servers have none', () => {
  expect(tagsOf(ROWS)).toEqual(['paper', 'wide']);
});
