import { TranslationBundle } from '@jupyterlab/translation';

import { IExperiment, ITrial } from '../server/api';
import { refusal } from './bulk';
import { csv } from './csv';

const filled = (text: string, given: readonly unknown[]) =>
  text.replace(/%(\d)/g, (_, at: string) => String(given[Number(at) - 1]));
const trans = {
  __: (text: string, ...given: unknown[]) => filled(text, given),
  _n: (one: string, many: string, count: number, ...given: unknown[]) =>
    filled(count === 1 ? one : many, [count, ...given])
} as unknown as TranslationBundle;

const trials = (...states: string[]) =>
  states.map((state, number) => ({ number, label: `t000${number}`, state }) as unknown as ITrial);
const going = { label: 'digits@1', state: 'running' } as IExperiment;

test('what is possible for all of the ticked trials is not refused', () => {
  expect(refusal('stop', trials('running', 'waiting', 'paused', 'setting up'), going, trans)).toBeNull();
  expect(refusal('delete', trials('completed', 'stopped', 'failed'), going, trans)).toBeNull();
  expect(refusal('pin', trials('running', 'failed'), going, trans)).toBeNull();
});

test('a trial that a person has paused or stopped is resumed, and no other', () => {
  const [held, stopped, at] = trials('paused', 'stopped', 'paused');
  const kinds = [{ ...held!, held: true }, { ...stopped!, asked: true }, at!];
  expect(refusal('resume', kinds.slice(0, 2), going, trans)).toBeNull();
  expect(refusal('resume', kinds, going, trans)).toBe('t0002 was not paused or stopped by a person.');
  // Its experiment has ended: a stopped trial stays stopped.
  expect(refusal('resume', kinds.slice(0, 2), { ...going, state: 'completed' }, trans)).toContain('digits@1 is');
  expect(refusal('pause', kinds, going, trans)).toBe('t0000, t0001 have ended or are paused already.');
  expect(refusal('pause', [at!], going, trans)).toBeNull();
});

test('what is not says for which of them, and a tooltip names only some', () => {
  expect(refusal('stop', trials('running', 'completed'), going, trans)).toBe('t0001 has ended or is ending already.');
  expect(refusal('delete', trials(...'123456'.split('').map(() => 'running')), going, trans)).toBe(
    't0000, t0001, t0002, t0003 and 2 more have not ended: stop them first.'
  );
  expect(refusal('stop', trials('paused'), { ...going, state: 'stopped' }, trans)).toBe(
    'digits@1 is stopped: nothing of it trains.'
  );
});

test('rows are comma-separated values that other programs read', () => {
  const columns = [
    { id: 'trial', of: ({ label }: ITrial) => label },
    { id: 'lr, "rate"', of: () => 0.1 },
    { id: 'reason', of: ({ number }: ITrial) => (number === 0 ? 'a\n"b"' : null) }
  ];
  expect(csv(columns, trials('running', 'completed'))).toBe(
    'trial,"lr, ""rate""",reason\r\nt0000,0.1,"a\n""b"""\r\nt0001,0.1,\r\n'
  );
});
