import { ITrial, Spec } from '../server/api';
import { parameters, placeOf } from './parameters';

test('two integers that are one number in JavaScript are two options', () => {
  // 2 ** 53 and 2 ** 53 + 1, as JSON.parse reads them.
  const options = [9007199254740992, 9007199254740992, 7].map(value => ({ kind: 'constant', value }));
  const spec = { space: { parameters: [{ name: 'seed', kind: 'choice', options }] } } as unknown as Spec;
  const trial = (number: number, seed: number, written?: string) =>
    ({ number, configuration: { seed }, ...(written && { written: { seed: written } }) }) as unknown as ITrial;
  const trials = [
    trial(0, 9007199254740992, '9007199254740993'),
    trial(1, 9007199254740992, '9007199254740992'),
    trial(2, 7)
  ];
  const [found] = parameters(spec, new Map(trials.map(one => [one.number, one])));
  expect(found!.categories).toEqual(['7', '9007199254740993', '9007199254740992']);
  expect(trials.map(one => placeOf(found!, one))).toEqual([1, 2, 0]);
});
