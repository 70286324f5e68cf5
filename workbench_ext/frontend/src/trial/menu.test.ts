jest.mock('@jupyterlab/apputils', () => ({}));
jest.mock('../tokens', () => ({}));
jest.mock('@lumino/widgets', () => ({}));

import { assignments, python } from './menu';

test('a configuration is lines of Python', () => {
  expect(assignments({ lr: 0.01, opt: 'sgd', nesterov: true, clip: null })).toBe(
    'lr = 0.01\nopt = "sgd"\nnesterov = True\nclip = None'
  );
  expect(python({ layers: [64, 32], norm: { kind: 'batch' } })).toBe('{"layers": [64, 32], "norm": {"kind": "batch"}}');
});
