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

test('a value that JavaScript has no number for is copied as the server wrote it', () => {
  // 2 ** 60 + 3 and 1.0, as JSON.parse reads them.
  const configuration = { lr: 0.01, seed: 1152921504606847000, dropout: 1, clip: 'inf' };
  const written = { seed: '1152921504606846979', dropout: '1.0', clip: 'float("inf")' };
  expect(assignments(configuration, written)).toBe(
    'lr = 0.01\nseed = 1152921504606846979\ndropout = 1.0\nclip = float("inf")'
  );
});
