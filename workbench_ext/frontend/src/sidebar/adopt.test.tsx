/** @jest-environment node */
import * as React from 'react';
import { renderToStaticMarkup } from 'react-dom/server';

import { IHealth, IOwnership } from '../server/api';
import { AdoptBanner, adoptStore, meaning } from './adopt';

jest.mock('../commands/dialogs', () => ({ confirmed: jest.fn() }));
import { confirmed } from '../commands/dialogs';

const filled = (text: string, ...values: unknown[]) =>
  text.replace(/%(\d)/g, (_, at) => String(values[Number(at) - 1]));
const trans = {
  __: filled,
  _n: (one: string, many: string, count: number, ...values: unknown[]) =>
    filled(count === 1 ? one : many, count, ...values) // the number is the first, as in JupyterLab
} as never;

const HEALTH: IHealth = {
  schema: 1,
  store: true,
  root: '/repo/.workbench',
  readonly: true,
  published: false,
  ours: false,
  version: '1',
  engine: { alive: false, state: 'none', host: null, pid: null, heartbeat: null, address: null }
};
const FOUND: IOwnership = {
  is_ours: false,
  reason: 'unknown',
  remedy: '',
  root: '/repo/.workbench',
  owner: 'alice',
  why: 'you neither made it nor adopted it',
  experiments: 12,
  unfinished: ['digits@1', '<b>@2'],
  requests: 1,
  tells: true,
  is_kept: true
};

const banner = (health: IHealth | null) =>
  renderToStaticMarkup(<AdoptBanner health={health} trans={trans} adopt={() => undefined} />);

test('nothing is said of a store of ones own, and of none', () => {
  expect(banner(null)).toBe('');
  expect(banner({ ...HEALTH, ours: true })).toBe('');
  expect(banner({ ...HEALTH, store: false })).toBe('');
  expect(banner({ ...HEALTH, published: true })).toBe('');
});

test('a foreign store is named, with a button', () => {
  expect(banner(HEALTH)).toContain('nothing in it runs: /repo/.workbench');
  expect(banner(HEALTH)).toContain('<button');
});

test('the question names the owner, the experiments and what will not go on', () => {
  const words = meaning(FOUND, trans);
  expect(words).toContain('/repo/.workbench belongs to alice and holds 12 experiments.');
  for (const part of ['digits@1, <b>@2', '1 pending request ', 'removed']) {
    expect(words).toContain(part);
  }
  expect(meaning({ ...FOUND, unfinished: [], requests: 0, tells: false }, trans)).not.toContain('paused');
});

test('only a yes adopts, and it names the folder that was shown', async () => {
  const api = { get: jest.fn().mockResolvedValue(FOUND), post: jest.fn() };
  (confirmed as jest.Mock).mockResolvedValueOnce(false);
  expect(await adoptStore(api as never, trans)).toBe(false);
  expect(api.post).not.toHaveBeenCalled();
  (confirmed as jest.Mock).mockResolvedValueOnce(true);
  expect(await adoptStore(api as never, trans)).toBe(true);
  expect(api.post).toHaveBeenCalledWith('ownership', { root: '/repo/.workbench' });
});
