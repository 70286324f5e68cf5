import { Api } from '../server/api';
import { Live } from '../server/live';
import { ExperimentsModel } from './experiments';

/** A server with one experiment, which answers as ours does. */
const served = { state: 'completed', note: '', more: false, lists: 0, unchanged: 0 };

jest.mock('@jupyterlab/coreutils', () => ({ URLExt: { join: (...parts: string[]) => parts.join('/') } }));
jest.mock('@jupyterlab/services', () => ({
  ServerConnection: {
    makeRequest: (address: string, init: { headers?: Record<string, string> }) => {
      if (!address.includes('experiments')) {
        return Promise.resolve({ ok: true, status: 200, headers: new Map(), json: () => Promise.resolve({}) });
      }
      const tag = `"${served.state} ${served.note}"`;
      served.lists += 1;
      if (init.headers?.['If-None-Match'] === tag) {
        served.unchanged += 1;
        return Promise.resolve({ ok: false, status: 304, headers: new Map() });
      }
      const experiments = [{ id: 'e', state: served.state, note: served.note }];
      const json = () => Promise.resolve({ experiments, more: served.more });
      return Promise.resolve({ ok: true, status: 200, headers: new Map([['ETag', tag]]), json });
    }
  }
}));

function made(): ExperimentsModel {
  Object.assign(served, { state: 'completed', note: '', more: false, lists: 0, unchanged: 0 });
  return new ExperimentsModel(new Api({ baseUrl: '' } as never, 's'), new Live(null));
}

test('an unchanged list is not sent again, and a changed one is shown', async () => {
  const model = made();
  let changes = 0;
  model.changed.connect(() => (changes += 1));
  await model.refresh();
  const first = model.experiments;
  await model.refresh();
  expect([served.lists, served.unchanged, changes]).toEqual([2, 1, 1]);
  expect(model.experiments).toBe(first);
  served.note = 'good';
  await model.refresh();
  expect([served.unchanged, changes, model.get('e')?.note]).toEqual([1, 2, 'good']);
  model.dispose();
});

test.each([
  ['completed', 5000],
  ['paused', 5000],
  ['running', 1000],
  ['waiting', 1000]
])('without events, a list with an experiment that is %s is asked for after %i ms', async (state, interval) => {
  const model = made();
  served.state = state;
  await model.refresh();
  expect(model.interval).toBe(interval);
  model.dispose();
});

test('a list that lacks sparklines is soon asked for again', async () => {
  const model = made();
  served.more = true;
  await model.refresh();
  expect(model.interval).toBe(1000);
  model.dispose();
});
