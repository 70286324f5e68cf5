import { Board } from './board';

let board: Board;

const words = () => board.shown.map(({ message }) => message);

function show(message: string, forMs = 5000): void {
  board.show({ id: message, kind: 'info', message, actions: [] }, forMs);
}

beforeEach(() => {
  jest.useFakeTimers();
  board = new Board();
});

afterEach(() => jest.useRealTimers());

test('each goes by itself when its time is over', () => {
  const changed = jest.fn();
  board.changed.connect(changed);
  show('short', 5000);
  show('long', 15_000);
  expect(words()).toEqual(['long', 'short']);
  jest.advanceTimersByTime(5001);
  expect(words()).toEqual(['long']);
  jest.advanceTimersByTime(10_000);
  expect(words()).toEqual([]);
  expect(changed).toHaveBeenCalledTimes(4);
});

test('three are shown at once, the newest first', () => {
  Array.from('abcd').forEach(word => show(word));
  expect(words()).toEqual(['d', 'c', 'b']);
  board.drop('c');
  expect(words()).toEqual(['d', 'b', 'a']);
});

test('none goes while a person reads it', () => {
  show('read');
  jest.advanceTimersByTime(4000);
  board.isHeld = true;
  jest.advanceTimersByTime(60_000);
  expect(words()).toEqual(['read']);
  board.isHeld = false;
  jest.advanceTimersByTime(900);
  expect(words()).toEqual(['read']);
  jest.advanceTimersByTime(200);
  expect(words()).toEqual([]);
});

test('one that comes while others are held is held too', () => {
  board.isHeld = true;
  show('new');
  jest.advanceTimersByTime(60_000);
  expect(words()).toEqual(['new']);
});
