jest.mock('@jupyterlab/coreutils', () => ({}));
jest.mock('@jupyterlab/services', () => ({}));

import { Api, ApiError } from '../server/api';
import { Live } from '../server/live';
import { Lineup, parted } from './lineup';

/** A server of experiments, by name: each with its best trial. */
const served = (best: Readonly<Record<string, number | null>>): Api =>
  ({
    store: 's',
    get: (path: string) => {
      const name = decodeURIComponent(path.split('/')[1]!);
      if (!(name in best)) {
        return Promise.reject(new ApiError(404, `no experiment ${name}`));
      }
      const number = best[name];
      const found = {
        id: `id-${name}`,
        label: `${name}@1`,
        best: number === null ? null : { number },
        trials: { of: 9 }
      };
      return Promise.resolve(path.endsWith('/trials') ? { cursor: 0, trials: [] } : { experiment: found });
    }
  }) as unknown as Api;

const loaded = (api: Api, refs: readonly string[]): Promise<Lineup> =>
  new Promise(resolve => {
    const lineup = new Lineup(api, new Live(null), refs);
    lineup.changed.connect(() => resolve(lineup));
  });

test('trials of several experiments are lined up as they were named, each experiment followed once', async () => {
  const lineup = await loaded(served({ digits: 3, words: 0 }), ['digits/t0007', 'words', 'digits/t0001:27']);
  expect(lineup.members!.map(({ ref }) => ref)).toEqual(['digits@1/t0007', 'words@1/t0000', 'digits@1/t0001']);
  expect(lineup.experiments.map(({ ref }) => ref)).toEqual(['id-digits', 'id-words']);
  expect(lineup.members![0]!.experiment).toBe(lineup.members![2]!.experiment);
  lineup.dispose();
});

test.each([
  [['digits/t0001', 'gone'], 'no experiment gone'],
  [['digits/t0001', 'fresh'], 'fresh@1: no trial has a value yet. Name one of its trials.']
])('what cannot be compared is said: %s', async (refs, error) => {
  const lineup = await loaded(served({ digits: 3, fresh: null }), refs);
  expect([lineup.members, lineup.error]).toEqual([null, error]);
  lineup.dispose();
});

test('a reference is read as people write it', () => {
  expect(parted(' digits@2/t0007:27 ')).toMatchObject({ name: 'digits@2', trial: 7 });
  expect(parted('digits@2/7')).toMatchObject({ name: 'digits@2', trial: 7 });
  expect(parted('digits')).toMatchObject({ name: 'digits', trial: null });
  expect(() => parted('digits/xyz')).toThrow('digits/xyz: xyz names no trial. Name one as t0007.');
});

test('a trial that is not there is refused, and the best is not shown in its place', async () => {
  const beyond = await loaded(served({ digits: 3 }), ['digits', 'digits/t0009']);
  expect(beyond.members).toBeNull();
  expect(beyond.error).toBe('digits/t0009: digits@1 has 9 trials, from t0000 on.');
  const unknown = new Lineup(served({ digits: 3 }), new Live(null), ['digits', 'digits/best']);
  expect(unknown.error).toBe('digits/best: best names no trial. Name one as t0007.');
});
