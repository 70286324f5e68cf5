import { Turns } from './turns';

/** Turns with a clock of their own: the milliseconds at which a task began that takes `cost` and is asked for at `at`. */
async function begins(at: readonly number[], cost: number, gap = 100): Promise<number[]> {
  jest.useFakeTimers();
  const [zero, found] = [performance.now(), [] as number[]];
  const turns = new Turns(() => {
    found.push(Math.round(performance.now() - zero));
    return new Promise(done => setTimeout(done, cost));
  }, gap);
  at.forEach(time => setTimeout(() => turns.ask(), time));
  await jest.advanceTimersByTimeAsync(3000);
  jest.useRealTimers();
  return found;
}

test.each([
  ['after a rest it is done at once', [0, 500], 10, [0, 500]],
  ['what comes close after the first waits for the gap', [0, 30], 10, [0, 100]],
  ['many questions are one', [0, 10, 20, 30, 40], 10, [0, 100]],
  ['what comes while it is done is done once more', [0, 5, 9], 60, [0, 120]],
  ['a slow one takes half of the time', [0, 100, 200, 300, 400], 200, [0, 400]],
  ['after the gap it is a rest again', [0, 100], 10, [0, 100]]
])('%s', async (_, at, cost, expected) => {
  expect(await begins(at, cost)).toEqual(expected);
});

test('a task that fails is not the last', async () => {
  let count = 0;
  const turns = new Turns(() => Promise.reject(new Error(String(++count))), 1);
  turns.ask();
  await new Promise(done => setTimeout(done, 10));
  turns.ask();
  // On a busy machine the first one may have taken so long that the second one waits.
  while (count < 2) {
    await new Promise(done => setTimeout(done, 5));
  }
});

test('nothing is done after it was disposed', async () => {
  let count = 0;
  const turns = new Turns(() => Promise.resolve(++count), 1);
  turns.ask();
  turns.ask();
  turns.dispose();
  await new Promise(done => setTimeout(done, 20));
  expect(count).toBe(1);
});
