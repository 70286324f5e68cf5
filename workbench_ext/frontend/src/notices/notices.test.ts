jest.mock('@jupyterlab/apputils', () => {
  const notifications: object[] = [];
  return {
    Notification: {
      manager: { notifications },
      emit: (message: string, type: string, options: object) => {
        const id = `n${(mockCount += 1)}`;
        notifications.unshift({ id, message, type, options });
        return id;
      },
      dismiss: (id: string) => {
        const left = notifications.filter(one => (one as { id: string }).id !== id);
        notifications.splice(0, notifications.length, ...left);
      }
    }
  };
});

import { Notification } from '@jupyterlab/apputils';

import { Board } from './board';
import { dismiss, showOn, tell } from '.';

let mockCount = 0;
let board: Board;

const undo = () => [{ label: 'Undo', callback: jest.fn() }];
const kept = () => Notification.manager.notifications.map(({ id }) => id);

beforeEach(() => {
  jest.useFakeTimers();
  kept().forEach(dismiss);
  board = new Board();
  showOn(board);
});

afterEach(() => {
  showOn(null);
  jest.useRealTimers();
});

test('the same again takes the place of the one before', () => {
  tell('info', 'Again.');
  tell('warning', 'Again.');
  const last = tell('info', 'Again.');
  expect(board.shown.map(({ kind }) => kind)).toEqual(['info', 'warning']);
  expect(kept()[0]).toBe(last);
  expect(kept()).toHaveLength(2);
});

test('one that can be undone stays when another one says the same', () => {
  const first = tell('warning', '14 trials are being deleted.', { actions: undo() });
  const second = tell('warning', '14 trials are being deleted.', { actions: undo() });
  tell('warning', '14 trials are being deleted.');
  expect(board.shown.slice(1).map(({ id, actions }) => [id, actions.length])).toEqual([
    [second, 1],
    [first, 1]
  ]);
  expect(kept().slice(1)).toEqual([second, first]);
});

test('one that is replaced by name goes, whatever it says', () => {
  const first = tell('success', 'digits@1 has ended.', { actions: undo() });
  const second = tell('success', 'digits@1 and digits@2 have ended.', { replaces: first });
  expect(kept()).toEqual([second]);
});
