import { Picks } from './picks';

function made(...rows: string[]): Picks {
  const picks = new Picks();
  picks.rows = rows;
  return picks;
}

const list = (picks: Picks) => [...picks.picked];

test('the first row has the keyboard before anything was picked', () => {
  expect(made('a', 'b').active).toBe('a');
  expect(made().active).toBeNull();
});

test('a click picks one, with ctrl one more, and with shift all between', () => {
  const picks = made('a', 'b', 'c', 'd');
  picks.pick('b');
  expect(list(picks)).toEqual(['b']);
  picks.pick('d', { also: true });
  expect(list(picks)).toEqual(['b', 'd']);
  picks.pick('d', { also: true });
  expect(list(picks)).toEqual(['b']);
  picks.pick('b');
  picks.pick('d', { through: true });
  expect(list(picks)).toEqual(['b', 'c', 'd']);
  picks.pick('a', { through: true });
  expect(list(picks)).toEqual(['a', 'b']);
});

test('arrows move and pick, with shift they extend, with ctrl they only move', () => {
  const picks = made('a', 'b', 'c');
  expect(picks.press('ArrowDown')).toBe(true);
  expect([picks.active, list(picks)]).toEqual(['b', ['b']]);
  picks.press('ArrowDown', { through: true });
  expect([picks.active, list(picks)]).toEqual(['c', ['b', 'c']]);
  picks.press('ArrowDown');
  expect(picks.active).toBe('c');
  picks.press('Home', { also: true });
  expect([picks.active, list(picks)]).toEqual(['a', ['c']]);
  picks.press(' ');
  expect(list(picks)).toEqual(['c', 'a']);
  picks.press('a', { also: true });
  expect(list(picks)).toEqual(['a', 'b', 'c']);
  expect(picks.press('Escape')).toBe(true);
  expect(list(picks)).toEqual([]);
  expect(picks.press('Escape')).toBe(false);
  expect(picks.press('x')).toBe(false);
});

test('what is gone is picked no more', () => {
  const picks = made('a', 'b', 'c');
  picks.pick('b');
  picks.pick('c', { also: true });
  let told = 0;
  picks.changed.connect(() => (told += 1));
  picks.rows = ['new', 'a', 'b'];
  expect([list(picks), picks.active, told]).toEqual([['b'], 'new', 1]);
  picks.rows = ['new', 'a', 'b'];
  expect(told).toBe(1);
});

test('a menu keeps many picked ones, and picks the row it is opened on otherwise', () => {
  const picks = made('a', 'b', 'c');
  picks.pick('a');
  picks.pick('b', { through: true });
  picks.pickForMenu('a');
  expect(list(picks)).toEqual(['a', 'b']);
  picks.pickForMenu('c');
  expect(list(picks)).toEqual(['c']);
});
