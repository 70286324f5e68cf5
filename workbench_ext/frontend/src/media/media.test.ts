import { ITrialFile } from '../server/api';
import { bars, byName, captionOf, shownAt, sorted, stepsOf } from './media';

const file = (title: string, step: number | null, more: Partial<ITrialFile> = {}): ITrialFile => ({
  name: `${title}-${step}-${more.number ?? 0}`,
  title,
  step,
  number: null,
  kind: 'image',
  bytes: 1,
  ...more
});

const FILES = [
  file('best.pt', null, { kind: 'other' }),
  file('lost', 3, { kind: 'captions' }),
  file('sample', 2),
  file('sample', 10, { kind: 'captions' }),
  file('sample', 10, { number: 1 }),
  file('sample', 10, { number: 2 }),
  file('spread', 5, { kind: 'histogram' })
];

test('files are grouped by name and step, and captions belong to the files of their step', () => {
  const media = byName(FILES);
  expect([...media.keys()]).toEqual(['best.pt', 'sample', 'spread']);
  const [two, ten] = media.get('sample')!;
  expect([two!.step, two!.files.length, two!.captions]).toEqual([2, 1, null]);
  expect([ten!.step, ten!.files.map(({ number }) => number), ten!.captions]).toEqual([10, [1, 2], FILES[3]]);
});

test('the slider has the steps of all names, and a name shows its newest up to the chosen step', () => {
  const media = byName(FILES);
  expect(stepsOf(media.values())).toEqual([2, 5, 10]);
  const at = (name: string, step: number | null) => shownAt(media.get(name)!, step)?.step;
  expect([2, 5, 10, null].map(step => at('sample', step))).toEqual([2, 2, 10, 10]);
  expect([2, 5, null].map(step => at('spread', step))).toEqual([undefined, 5, 5]);
  expect(at('best.pt', 2)).toBe(null);
});

test('a caption is that of the place in the list', () => {
  expect(captionOf(['one', 'two'], file('a', 1, { number: 2 }))).toBe('two');
  expect(captionOf(['one'], file('a', 1))).toBe('one');
  expect([null, {}, [1], []].map(captions => captionOf(captions, file('a', 1)))).toEqual(['', '', '', '']);
});

test('bars of equal width have heights of their counts, others areas', () => {
  const heights = (edges: number[], counts: number[]) =>
    bars({ edges, counts, left_out: 0 }, 100, 10).map(({ x, width, y, height }) => [x, width, y, height]);
  expect(heights([0, 1, 2], [1, 2])).toEqual([
    [0, 50, 5, 5],
    [50, 50, 0, 10]
  ]);
  expect(heights([0, 1, 4], [1, 3])).toEqual([
    [0, 25, 0, 10],
    [25, 75, 0, 10]
  ]);
  expect(heights([0, 1], [0])).toEqual([[0, 100, 10, 0]]);
  expect(heights([], [])).toEqual([]);
});

test('rows are sorted by numbers, then texts, and what is missing stays at the end', () => {
  const rows = [['b10'], [null], [2], ['b9'], [10], ['nan']];
  expect(sorted(rows, 0, false)).toEqual([[2], [10], ['b9'], ['b10'], ['nan'], [null]]);
  expect(sorted(rows, 0, true)).toEqual([[10], [2], ['nan'], ['b10'], ['b9'], [null]]);
});
