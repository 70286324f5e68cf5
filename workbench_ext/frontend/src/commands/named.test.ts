/** @jest-environment node */
import { named, trialsNamed } from './named';

const filled = (text: string, given: readonly unknown[]) =>
  text.replace(/%(\d)/g, (_, place: string) => String(given[Number(place) - 1]));
const trans = {
  _n: (one: string, many: string, count: number, ...more: unknown[]) =>
    filled(count === 1 ? one : many, [count, ...more])
} as never;

const rows = (count: number) => Array.from({ length: count }, (_, at) => ({ label: `digits@${at + 1}` }));

test('experiments are named while that is short, and else counted', () => {
  expect(named(rows(1), trans)).toBe('digits@1');
  expect(named(rows(3), trans)).toBe('digits@1, digits@2, digits@3');
  expect(named(rows(30), trans)).toBe('30 experiments');
  const long = { label: `${'long'.repeat(30)}@1` };
  expect(named([long], trans)).toBe(long.label);
  expect(named([long, long], trans)).toBe('2 experiments');
});

test('trials are named with their experiment', () => {
  expect(trialsNamed('digits@2', [7], trans)).toBe('digits@2/t0007');
  expect(trialsNamed('digits@2', [7, 12], trans)).toBe('digits@2/t0007, t0012');
  const many = Array.from({ length: 14 }, (_, at) => at);
  expect(trialsNamed('digits@2', many, trans)).toBe('14 trials of digits@2');
});
