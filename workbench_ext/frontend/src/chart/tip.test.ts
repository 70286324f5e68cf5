import { ITrial } from '../server/api';
import { trialFacts } from './tip';

test('beside the pointer, options that are lists and dicts are readable', () => {
  const configuration = { sizes: [64, 32], norm: { kind: 'batch', eps: 1 }, clip: null, lr: 0.1 };
  const trial = { number: 0, state: 'running', value: 0.5, configuration } as unknown as ITrial;
  const context = { trans: { __: (text: string) => text }, experiment: { goal: null } } as never;
  expect(Object.fromEntries(trialFacts(trial, context))).toMatchObject({
    sizes: '[64,32]',
    norm: '{"kind":"batch","eps":1}',
    clip: 'null',
    lr: '0.1'
  });
});
