/** What follows an experiment asks once at the start, also when nothing will ever change. */

import { Signal } from '@lumino/signaling';

import { ExperimentModel } from './experiment';
import { LadderModel, LegsModel, MeasuresModel } from './follow';

const TOLD = {
  ladder: {
    n: 7,
    goal: { metric: 'acc', mode: 'max' },
    scheduler: 'all',
    best: null,
    brackets: [],
    trials: []
  },
  since: { retries: 0, failures: 0, best: null, ended: null }
};

function ended(answer: unknown): { experiment: ExperimentModel; asked: unknown[] } {
  const asked: unknown[] = [];
  const owner = {};
  const experiment = {
    ref: 'digits',
    changed: new Signal(owner),
    api: {
      get: (_: string, query: unknown) => {
        asked.push(query);
        return Promise.resolve(answer);
      }
    }
  } as unknown as ExperimentModel;
  return { experiment, asked };
}

const changed = (model: LadderModel | LegsModel | MeasuresModel) =>
  new Promise<void>(resolve => {
    model.changed.connect(() => resolve());
  });

test('the ladder of an experiment that has ended is there after one question', async () => {
  const { experiment, asked } = ended(TOLD);
  const model = new LadderModel(experiment);
  await changed(model);
  expect(model.error).toBeNull();
  expect(model.ladder?.n).toBe(7);
  expect(asked).toEqual([{ after: 0 }]);
});

test('the legs too', async () => {
  const leg = { trial: 0, attempt: 1, slot: 'a', worker: null };
  const { experiment, asked } = ended({ cursor: 3, legs: [leg] });
  const model = new LegsModel(experiment);
  await changed(model);
  expect(model.legs).toEqual([leg]);
  expect(asked).toEqual([{ after: 0 }]);
});

test('what was measured is kept by trial, and only what changed is asked for', async () => {
  const answers = [
    { cursor: 3, trials: [{ trial: 0, slot: 'a' }] },
    { cursor: 5, trials: [{ trial: 1, slot: 'b' }] }
  ];
  const { experiment, asked } = ended(null);
  experiment.api.get = ((_: string, query: unknown) => {
    asked.push(query);
    return Promise.resolve(answers[asked.length - 1]);
  }) as never;
  const model = new MeasuresModel(experiment);
  await changed(model);
  (experiment.changed as Signal<unknown, unknown>).emit({ trials: [], points: true, ladder: true });
  await changed(model);
  expect([...model.measured.values()].map(({ slot }) => slot)).toEqual(['a', 'b']);
  expect(asked).toEqual([{ after: 0 }, { after: 3 }]);
});
