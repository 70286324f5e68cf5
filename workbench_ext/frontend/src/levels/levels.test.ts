import { IEntry, ILadder } from '../ladder/data';
import { ITrial } from '../server/api';
import { chosenLevel, goalAt, levelsOf } from './levels';

const entry = (trial: number, value: IEntry['value'], ranks = true): IEntry => ({
  ...{ trial, value, ranks, rank: null, fate: 'on', reason: '', from: 0 }
});

const rung = (step: number, ...entries: IEntry[]) => ({ step, places: null, going: 0, cut: null, entries });

const LADDER: ILadder = {
  n: 1,
  goal: { metric: 'acc', mode: 'max' },
  scheduler: 'hyperband',
  best: null,
  brackets: [
    {
      bracket: 1,
      turn: 0,
      rungs: [rung(1, entry(0, 0.1), entry(1, 0.2), entry(2, 'nan', false)), rung(3, entry(1, 0.5))]
    },
    { bracket: 0, turn: 0, rungs: [rung(3, entry(5, 0.4), entry(6, 0.9, false), entry(7, null, false)), rung(9)] }
  ]
};

it('joins the brackets at each step, and leaves out what is not ranked', () => {
  const found = levelsOf(LADDER).map(({ step, values }) => [step, [...values]]);
  expect(found).toEqual([
    [
      1,
      [
        [0, 0.1],
        [1, 0.2]
      ]
    ],
    [
      3,
      [
        [1, 0.5],
        [5, 0.4]
      ]
    ],
    [9, []]
  ]);
});

it('shows the highest level that a trial reached, unless another one is chosen', () => {
  const levels = levelsOf(LADDER);
  expect(chosenLevel(levels, null)?.step).toBe(3);
  expect(chosenLevel(levels, 1)?.step).toBe(1);
  expect(chosenLevel(levels, 9)?.step).toBe(9);
  expect(chosenLevel(levels, 27)?.step).toBe(3);
  expect(chosenLevel(levelsOf({ ...LADDER, brackets: [] }), null)).toBeNull();
});

it('has no value of a trial that did not reach the level', () => {
  const trans = {
    __: (text: string, ...values: unknown[]) =>
      values.reduce<string>((said, one, at) => said.replace(`%${at + 1}`, String(one)), text)
  };
  const goal = goalAt(levelsOf(LADDER)[1]!, { metric: 'acc', mode: 'max' }, trans as never);
  expect(goal.label).toBe('acc at step 3');
  expect(goal.of({ number: 5 } as ITrial)).toBe(0.4);
  expect(goal.of({ number: 0 } as ITrial)).toBeNaN();
});
