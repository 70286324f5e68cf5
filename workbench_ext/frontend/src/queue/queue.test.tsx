/** @jest-environment node */
import * as React from 'react';
import { renderToStaticMarkup } from 'react-dom/server';

import { IQueue, IQueueSlot } from '../server/api';
import { named, places, summary } from './queue';
import { QueueTables } from './view';

const filled = (text: string, ...values: unknown[]) =>
  text.replace(/%(\d)/g, (_, at) => String(values[Number(at) - 1]));
const trans = {
  __: filled,
  _n: (one: string, many: string, count: number, ...values: unknown[]) =>
    filled(count === 1 ? one : many, count, ...values)
} as never;

const HELD: IQueueSlot = {
  slot: 'cpu10',
  user: null,
  store: '/home/me/nlp/.workbench',
  place: '~/nlp',
  experiment: 'bert@1',
  trial: 't0003',
  beside: [],
  pid: 7,
  since: '2026-01-01T00:00:00.000+00:00',
  has_engine: true,
  trouble: null,
  utilisation: 0.984,
  memory_bytes: 1.2e9,
  gpu: null
};
const QUEUE: IQueue = {
  slots: [HELD],
  free: ['cpu2'],
  drained: ['cpu1', 'cpu10'],
  waiting: [
    {
      user: null,
      store: '/home/me/audio/.workbench',
      place: '~/audio',
      experiments: ['<b>@1'],
      held: 1,
      lacks: 3,
      unit: 4,
      weight: 2,
      priority: 0,
      wants: ['cpu0', 'cpu1', 'cpu2'],
      since: '2026-01-01T00:00:00.000+00:00',
      promised: [],
      why: 'waits for 4 slots: it has 1; 1 of 4 is held by ~/nlp (bert@1)'
    }
  ],
  outside: [],
  lacks: [],
  divided: [],
  clusters: []
};
const EMPTY = { slots: [], drained: [], waiting: [], outside: [], lacks: [], divided: [], clusters: [] };
const NONE: IQueue = { ...EMPTY, free: ['cpu0'] };
const drawn = (queue: IQueue, open: (() => void) | null = null) =>
  renderToStaticMarkup(<QueueTables queue={queue} trans={trans} opener={() => open} use={() => undefined} />);

test('all slots come by number, held, free and drained', () => {
  expect(places(QUEUE).map(({ slot, held, drained }) => [slot, held !== null, drained])).toEqual([
    ['cpu1', false, true],
    ['cpu2', false, false],
    ['cpu10', true, true]
  ]);
});

test('it says what is held and who waits in one line', () => {
  expect(summary(QUEUE, trans)).toBe('1 of 3 slots held, 1 free, 2 drained; 1 waits');
  expect(summary(NONE, trans)).toBe('0 of 1 slot held, 1 free');
});

test.each([
  [['cpu0', 'cpu1', 'cpu2', 'gpu-GPU-1'], 'cpu0–cpu2, gpu-GPU-1'],
  [['cpu0', 'cpu1'], 'cpu0, cpu1'],
  [['cpu0', 'cpu2', 'cpu3', 'cpu4'], 'cpu0, cpu2–cpu4'],
  [[], '']
])('names in a row are a range: %p', (names, text) => {
  expect(named(names)).toBe(text);
});

test('who holds, what it uses and why others wait, as text', () => {
  const shown = drawn(QUEUE);
  expect(shown).toContain('bert@1/t0003');
  expect(shown).toContain('~/nlp');
  expect(shown).toContain('98 %');
  expect(shown).toContain('1.2 GB');
  expect(shown).toContain('drained: it saves, and makes room');
  expect(shown).toContain('waits for 4 slots: it has 1; 1 of 4 is held by ~/nlp (bert@1)');
  expect(shown).toContain('&lt;b&gt;@1');
  expect(shown).not.toContain('GPU memory');
  expect(shown.match(/>Drain</g)).toHaveLength(1);
  expect(shown.match(/>Use again</g)).toHaveLength(2);
  expect(drawn(NONE)).toContain('No search waits for a slot.');
});

test('an experiment is a link only where its store is shown', () => {
  expect(drawn(QUEUE)).not.toContain('wb-Link');
  expect(drawn(QUEUE, () => undefined).match(/wb-Link/g)).toHaveLength(2);
});

test('on GPUs their use is shown, and programs outside of Workbench', () => {
  const gpu = {
    slot: 'gpu-0',
    name: 'H100',
    utilisation: null,
    memory_bytes: 2e9,
    memory_total_bytes: 80e9,
    power_w: 301.4
  };
  const outside = [{ gpu: 'gpu-0', pid: 9, name: 'blender', memory_bytes: null }];
  const shown = drawn({ ...QUEUE, slots: [{ ...HELD, gpu }], outside });
  expect(shown).toContain('2 GB of 80 GB');
  expect(shown).toContain('301 W');
  expect(shown).toContain('gpu-0: memory is held outside of Workbench, by blender (process 9).');
});

test('trials that share a slot are named together, and another user by name alone', () => {
  const other: IQueueSlot = {
    ...HELD,
    slot: 'cpu2',
    user: 'alice',
    store: null,
    place: 'alice',
    experiment: null,
    trial: null,
    has_engine: null
  };
  const shown = drawn({ ...QUEUE, slots: [{ ...HELD, beside: ['t0004', 't0007'] }, other] });
  expect(shown).toContain('bert@1/t0003, t0004, t0007');
  expect(shown).toContain('another user');
  expect(shown).toContain('alice');
});

test('what memory and measured parts decide is said, and clusters have sections', () => {
  const [waits] = QUEUE.waiting;
  const why = 'waits for 4 slots: 3 free, 2 promised to ~/nlp (bert@1) since 14:05';
  const of = { store: '/home/me/nlp/.workbench', place: '~/nlp', experiment: 'bert@1' };
  const shown = drawn({
    ...QUEUE,
    lacks: [{ ...of, why: 'waits for memory: gpu-0 has 4 GB free', promised: [] }],
    divided: [{ ...of, parts: 4, why: '4 trials in each slot: one needs 2.1 of 10 GB' }],
    clusters: [
      {
        address: 'tcp://10.0.0.1:8786',
        stores: [of.store],
        trouble: 'its scheduler does not answer within 2 s',
        slots: [{ ...of, slot: 'tcp://10.0.0.2:41/0', trial: 't0003', since: null }],
        free: ['tcp://10.0.0.2:41/1'],
        waiting: [{ ...waits!, why }]
      }
    ]
  });
  expect(shown).toContain('~/nlp (bert@1) waits for memory: gpu-0 has 4 GB free.');
  expect(shown).toContain('~/nlp (bert@1): 4 trials in each slot: one needs 2.1 of 10 GB.');
  expect(shown).toContain('Cluster at tcp://10.0.0.1:8786');
  expect(shown).toContain('its scheduler does not answer within 2 s.');
  expect(shown).toContain('1 slot is free.');
  expect(shown).toContain(why);
});
