jest.mock('@jupyterlab/coreutils', () => ({}));
jest.mock('@jupyterlab/services', () => ({}));

import { TranslationBundle } from '@jupyterlab/translation';

import { Api, ApiError, IStoreInfo, Kept, Query } from '../server/api';
import { Live } from '../server/live';
import { Stores, keyOf, refOf } from './stores';

const info = (id: string, folder: string, more: Partial<IStoreInfo> = {}) =>
  ({ id, folder, exists: true, ours: true, experiments: 0, under_way: 0, ...more }) as IStoreInfo;

/** A server of several stores. Each answers with one experiment that is called by the store's id. */
class Served {
  asked: string[] = [];
  stores = [info('r', ''), info('z', 'zoo'), info('a', 'a/b')];
  /** The ids of stores by the paths of notebooks beside them, and by the experiments that they hold. */
  beside: Record<string, string> = {};
  holding: Record<string, string> = {};
  /** Those that the server meets only when somebody asks for a notebook beside them. */
  unmet: Record<string, IStoreInfo> = {};

  api(store: string | null = null): Api {
    return {
      store,
      of: (id: string) => this.api(id),
      get: (path: string, query: Query = {}) => this._get(store, path, query),
      again: async (path: string) => new Kept('"tag"', await this._get(store, path, {}))
    } as unknown as Api;
  }

  private _get(store: string | null, path: string, query: Query): Promise<unknown> {
    this.asked.push(`${store ?? ''}:${path}${query.path ? ` ${String(query.path)}` : ''}`);
    if (path === 'stores') {
      return Promise.resolve({ stores: this.stores });
    }
    if (path === 'stores/of') {
      const given = String(query.path);
      if (given.startsWith('..')) {
        return Promise.reject(new ApiError(400, 'a notebook below the folder'));
      }
      if (this.unmet[given]) {
        this.stores = [...this.stores, this.unmet[given]];
        delete this.unmet[given];
      }
      const id = this.beside[given] ?? this.holding[String(query.experiment)];
      return Promise.resolve({ store: this.stores.find(one => one.id === id) ?? null });
    }
    return Promise.resolve(path === 'experiments' ? { experiments: [{ id: 'e', label: store }] } : {});
  }
}

function made(): { served: Served; stores: Stores } {
  const served = new Served();
  const trans = { __: (text: string, ...given: string[]) => [text, ...given].join(' ') };
  return {
    served,
    stores: new Stores(served.api(), new Live(null), trans as unknown as TranslationBundle)
  };
}

const folders = (stores: Stores) => stores.shown.map(({ label }) => label);

test('the default store is the first, the others follow by their folders', async () => {
  const { stores } = made();
  expect([stores.all, stores.current, folders(stores)]).toEqual([null, null, []]);
  await stores.refresh();
  expect(folders(stores)).toEqual(['/', 'a/b/', 'zoo/']);
  expect(stores.current?.id).toBe('r');
});

test('the store beside the active notebook goes before all, and is the one that is meant', async () => {
  const { served, stores } = made();
  served.beside['zoo/nb.ipynb'] = 'z';
  stores.notebook = 'zoo/nb.ipynb';
  await stores.refresh();
  expect(folders(stores)).toEqual(['zoo/', '/', 'a/b/']);
  expect([stores.beside, stores.current?.id]).toEqual(['z', 'z']);
  stores.notebook = '../elsewhere.ipynb';
  await stores.refresh();
  expect([stores.beside, folders(stores)[0]]).toEqual([null, '/']);
});

test('a default store that is not there is shown only where there is no other, or beside the notebook', async () => {
  const { served, stores } = made();
  served.stores = [info('r', '', { exists: false })];
  await stores.refresh();
  expect(folders(stores)).toEqual(['/']);
  served.stores = [info('r', '', { exists: false }), info('z', 'zoo')];
  await stores.refresh();
  expect(folders(stores)).toEqual(['zoo/']);
  served.beside['nb.ipynb'] = 'r';
  stores.notebook = 'nb.ipynb';
  await stores.refresh();
  expect(folders(stores)).toEqual(['/', 'zoo/']);
});

test('each store asks for itself, and its rows say which one they are of', async () => {
  const { served, stores } = made();
  await stores.refresh();
  await stores.get('z')!.experiments.refresh();
  expect(served.asked).toContain('z:experiments');
  expect(stores.row({ store: 'z', experiment: 'e' })).toMatchObject({ store: 'z', label: 'z' });
  expect(stores.row({ store: 'a', experiment: 'e' })).toBeUndefined();
});

test('what is known of a store stays while the list is asked for again, and goes with the store', async () => {
  const { served, stores } = made();
  await stores.refresh();
  const zoo = stores.get('z');
  served.stores = [info('r', ''), info('z', 'zoo', { under_way: 1 })];
  await stores.refresh();
  expect(stores.get('z')).toBe(zoo);
  expect([zoo?.info.under_way, stores.get('a')]).toEqual([1, undefined]);
});

test('an experiment without a store is looked for beside the notebook and then in all', async () => {
  const { served, stores } = made();
  served.holding['digits@1'] = 'a';
  expect((await stores.find('digits@1')).id).toBe('a');
  expect((await stores.find('nobody')).id).toBe('r');
  expect((await stores.find('digits@1', { store: 'z' })).id).toBe('z');
});

test('a page finds its store again after a new server has forgotten it', async () => {
  const { served, stores } = made();
  served.unmet['deep/down/-'] = info('d', 'deep/down');
  expect((await stores.find('e', { store: 'd', folder: 'deep/down' })).id).toBe('d');
  await expect(stores.find('e', { store: 'gone', folder: 'old' })).rejects.toThrow('old/');
});

test('a key names an experiment and its store', () => {
  const ref = { store: '0123456789abcdef', experiment: '20260101-000000-aaaaaa' };
  expect(refOf(keyOf(ref))).toEqual(ref);
});
