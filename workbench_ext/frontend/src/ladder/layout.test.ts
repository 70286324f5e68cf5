import { readFileSync } from 'fs';
import { join } from 'path';

import { Rungs } from './ladder';
import { ITold } from './data';
import { INode, layout, nearest, rows, step } from './layout';

const FIXTURES = join(__dirname, '../../../../tests/fixtures/ladder');
const recorded = (name: string) =>
  new Rungs().take((JSON.parse(readFileSync(join(FIXTURES, `${name}.json`), 'utf8')) as { ladder: ITold }).ladder);

describe('rows', () => {
  it.each([1, 9, 40, 81, 1000, 10000])('%d fit, in order, the upper ones further apart', count => {
    const made = rows(count, 500);
    expect(made.y(count - 1)).toBeLessThanOrEqual(500.01);
    for (let row = 1; row < count; row++) {
      expect(made.y(row)).toBeGreaterThan(made.y(row - 1));
      expect(made.spacing(row)).toBeLessThanOrEqual(made.spacing(row - 1));
    }
    if (count > 9) {
      expect(made.y(1) - made.y(0)).toBeGreaterThan(5);
    }
  });
});

describe('layout', () => {
  const ladder = recorded('hyperband-27');
  const picture = layout(ladder, 1200, 600);
  const nodes = [...picture.trials.values()].flat();

  it('has a mark for each entry, inside of the page', () => {
    const entries = ladder.brackets.flatMap(({ rungs }) => rungs.flatMap(one => one.entries));
    expect(nodes.length).toBe(entries.length);
    expect(new Set(nodes.map(({ key }) => key)).size).toBe(nodes.length);
    for (const { x, y } of nodes) {
      expect(x).toBeGreaterThan(0);
      expect(x).toBeLessThan(picture.width);
      expect(y).toBeLessThan(600);
    }
    expect(picture.width).toBeLessThanOrEqual(1200.5);
  });

  it('puts the best on top and the cut between who goes on and who does not', () => {
    for (const { columns } of picture.panels) {
      for (const { nodes, cutY } of columns) {
        expect(nodes.map(({ entry }) => entry.rank)).toEqual(nodes.map((_, row) => row + 1));
        for (const { entry, y } of cutY === null ? [] : nodes) {
          expect(y < cutY!).toBe(entry.fate === 'on');
        }
      }
    }
  });

  it('puts marks of one rank at one height in all brackets', () => {
    const tops = picture.panels.flatMap(({ columns }) => columns.map(({ nodes }) => nodes[0]!.y));
    expect(new Set(tops).size).toBe(1);
  });

  it('finds the mark under the pointer, and nothing where nothing is', () => {
    for (const node of nodes) {
      expect(nearest(picture, node.x + 1, node.y)).toBe(node);
    }
    expect(nearest(picture, 1190, 590)).toBeNull();
  });

  it('is walked by keys: in a column, along a line, and from its end to the column beside', () => {
    const best = picture.trials.get(ladder.best!.trial)!;
    expect(step(picture, best[0]!, 'ArrowRight')).toBe(best[1]);
    expect(step(picture, best[1]!, 'ArrowLeft')).toBe(best[0]);
    const first = picture.panels[0]!.columns[0]!.nodes;
    expect(step(picture, first[0]!, 'ArrowDown')).toBe(first[1]);
    expect(step(picture, first[0]!, 'ArrowUp')).toBeNull();
    expect(step(picture, first[3]!, 'End')).toBe(first[first.length - 1]);
    const ended = first.find(({ entry }) => entry.fate === 'stopped')!;
    expect(step(picture, ended, 'ArrowRight')!.column).toBe(1);
    // Nobody is out of reach.
    const seen = new Set<INode>([first[0]!]);
    for (const node of seen) {
      for (const key of ['ArrowUp', 'ArrowDown', 'ArrowLeft', 'ArrowRight']) {
        const next = step(picture, node, key);
        if (next) {
          seen.add(next);
        }
      }
    }
    expect(seen.size).toBe(nodes.length);
  });

  it('keeps rounds below each other', () => {
    const twice = {
      ...ladder,
      brackets: [...ladder.brackets, ...ladder.brackets.map(one => ({ ...one, turn: 1 }))]
    };
    const { panels, height } = layout(twice, 1200, 300);
    expect(height).toBeGreaterThan(400);
    expect(panels[panels.length - 1]!.top).toBeGreaterThan(panels[0]!.top + panels[0]!.rows.height);
  });

  it('puts who failed before any value below all others', () => {
    const small = layout(recorded('hyperband-9'), 1200, 600);
    const fates = small.panels[0]!.columns[0]!.nodes.map(({ entry }) => entry.fate);
    expect(fates[fates.length - 1]).toBe('failed');
  });
});
