jest.mock('@jupyterlab/coreutils', () => ({}));
jest.mock('@jupyterlab/services', () => ({}));

import { Event } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';

import { Api, ApiError, ITrial, Query } from '../server/api';
import { ExperimentModel, IChanged } from './experiment';
import { Live } from '../server/live';

/** A server of one experiment: each answer has the trials that changed after the cursor. */
class Served {
  readonly store = 's';
  asked: string[] = [];
  gone = false;
  state = 'running';
  engine = true;
  /** In the order in which they changed. */
  trials: Partial<ITrial>[] = [];

  get = (path: string, query: Query = {}): Promise<unknown> => {
    this.asked.push(path + (query.after === undefined ? '' : `?after=${String(query.after)}`));
    const after = (query.engine ?? this.engine) === this.engine ? Number(query.after) : 0;
    if (this.gone) {
      return Promise.reject(new ApiError(0, 'nobody answers'));
    }
    return Promise.resolve(
      path.endsWith('/trials')
        ? { cursor: this.trials.length, engine: this.engine, trials: this.trials.slice(after) }
        : { experiment: { id: 'e', label: 'digits@1', state: this.state, goal: null }, meta: {}, spec: {} }
    );
  };
}

/** The server's event bus. */
const bus = new Signal<object, { schema_id: string }>({});

function tell(store: string): void {
  const schema_id = 'urn:workbench:events:changed:v2';
  bus.emit({ schema_id, store, experiments: ['e'], catalog: false } as { schema_id: string });
}

function opened(): { served: Served; model: ExperimentModel; heard: IChanged[] } {
  const served = new Served();
  const model = new ExperimentModel(served as unknown as Api, 'e', new Live(bus as unknown as Event.Stream));
  const heard: IChanged[] = [];
  model.changed.connect((_, change) => heard.push(change));
  return { served, model, heard };
}

/** The next change of which something is true. */
function next(model: ExperimentModel, fits: (change: IChanged) => boolean): Promise<IChanged> {
  return new Promise(resolve => {
    const once = (_: ExperimentModel, change: IChanged) => {
      if (fits(change)) {
        model.changed.disconnect(once);
        resolve(change);
      }
    };
    model.changed.connect(once);
  });
}

const withTrials = ({ trials }: IChanged) => trials.length > 0;

test('nothing is asked before somebody looks', async () => {
  const { served, model } = opened();
  await new Promise(resolve => setTimeout(resolve, 20));
  expect(served.asked).toEqual([]);
  model.dispose();
});

test('each trial is asked for once, by the cursor', async () => {
  const { served, model } = opened();
  served.trials = [{ number: 0, step: 1 }, { number: 1 }];
  const first = next(model, ({ points }) => points);
  model.watched = true;
  expect((await first).trials).toEqual([0, 1]);
  expect(model.row?.label).toBe('digits@1');
  served.trials.push({ number: 0, step: 2 });
  const second = next(model, withTrials);
  await model.refresh();
  expect(await second).toEqual({ trials: [0], points: true, ladder: true });
  expect(model.trials.get(0)?.step).toBe(2);
  expect(model.trials.size).toBe(2);
  expect(served.asked.filter(path => path.includes('trials'))).toEqual([
    'experiments/e/trials?after=0',
    'experiments/e/trials?after=2'
  ]);
  model.dispose();
});

test('while the server is gone what was known stays, and nothing is lost afterwards', async () => {
  const { served, model } = opened();
  served.trials = [{ number: 0 }];
  const first = next(model, ({ points }) => points);
  model.watched = true;
  await first;
  served.gone = true;
  const lost = next(model, () => model.stale);
  void model.refresh();
  await lost;
  expect([model.stale, model.error?.message, model.trials.size]).toEqual([true, 'nobody answers', 1]);
  served.gone = false;
  served.trials.push({ number: 1 });
  const found = next(model, withTrials);
  void model.refresh();
  expect((await found).trials).toEqual([1]);
  expect([model.stale, model.error]).toEqual([false, null]);
  expect(served.asked.at(-1)).toBe('experiments/e/trials?after=1');
  model.dispose();
});

test('an experiment that has ended says once that it did, and then nothing', async () => {
  const { served, model, heard } = opened();
  const first = next(model, ({ points }) => points);
  model.watched = true;
  await first;
  served.state = 'completed';
  const last = next(model, () => model.ended);
  void model.refresh();
  await last;
  expect(model.ended).toBe(true);
  const [told, asked] = [heard.length, served.asked.length];
  while (served.asked.length < asked + 4) {
    await model.refresh();
    await new Promise(resolve => setTimeout(resolve));
  }
  expect(heard.length).toBe(told);
  model.dispose();
});

test('a change of another store is not asked about, though it holds an experiment of the same id', async () => {
  const { served, model } = opened();
  const first = next(model, ({ points }) => points);
  model.watched = true;
  await first;
  const asked = served.asked.length;
  tell('another');
  await new Promise(resolve => setTimeout(resolve, 200)); // longer than changes are gathered: silence cannot be awaited
  expect(served.asked.length).toBe(asked);
  const second = next(model, ({ points }) => points);
  tell('s');
  await second;
  expect([served.asked.length, model.row?.store]).toEqual([asked + 2, 's']);
  model.dispose();
});

test('when the engine has died, no trial is shown running any more', async () => {
  const { served, model } = opened();
  served.trials = [{ number: 0, state: 'running' }];
  const first = next(model, withTrials);
  model.watched = true;
  await first;
  served.engine = false;
  served.trials = [{ number: 0, state: 'waiting' }]; // as the server sees it now, though its row did not change
  const second = next(model, withTrials);
  void model.refresh();
  await second;
  expect(model.trials.get(0)?.state).toBe('waiting');
  model.dispose();
});
