/** The queue of the machine's slots as rows. Law: pure. */

import { TranslationBundle } from '@jupyterlab/translation';

import { IQueue, IQueueSlot } from '../server/api';

/** A slot of the machine: held or not, and whether a person took it out of use. */
export interface IPlace {
  readonly slot: string;
  readonly held: IQueueSlot | null;
  readonly drained: boolean;
}

/** All slots of the machine, by number. */
export function places({ slots, free, drained }: IQueue): readonly IPlace[] {
  const held = new Map(slots.map(one => [one.slot, one]));
  const out = new Set(drained);
  return [...new Set([...held.keys(), ...free, ...drained])]
    .sort((a, b) => a.localeCompare(b, 'en', { numeric: true }))
    .map(slot => ({ slot, held: held.get(slot) ?? null, drained: out.has(slot) }));
}

/** `bert@1/t0003`, with all trials that have parts of the slot; what the engine does not say is left out. */
export function trainsOf({ experiment, trial, beside }: IQueueSlot): string | null {
  return experiment && trial ? `${experiment}/${[trial, ...beside].join(', ')}` : experiment;
}

/** `3 of 4 slots held, 1 free, 1 drained; 2 wait` */
export function summary(queue: IQueue, trans: TranslationBundle): string {
  const all = places(queue);
  const drained = queue.drained.length;
  const parts = [
    trans._n('%2 of %1 slot held', '%2 of %1 slots held', all.length, queue.slots.length),
    ...(queue.free.length > 0 ? [trans.__('%1 free', queue.free.length)] : []),
    ...(drained > 0 ? [trans.__('%1 drained', drained)] : [])
  ];
  const waits = queue.waiting.length;
  return parts.join(', ') + (waits > 0 ? `; ${trans._n('%1 waits', '%1 wait', waits, waits)}` : '');
}

/** `cpu0–cpu3, gpu-0`: three names with numbers in a row, or more, are a range. */
export function named(names: readonly string[]): string {
  const runs: string[][] = [];
  for (const name of names) {
    const run = runs[runs.length - 1];
    if (run && follows(run[run.length - 1]!, name)) {
      run.push(name);
    } else {
      runs.push([name]);
    }
  }
  return runs.flatMap(run => (run.length < 3 ? run : [`${run[0]}–${run[run.length - 1]}`])).join(', ');
}

const NUMBERED = /^(cpu|more)(\d+)$/;

function follows(before: string, after: string): boolean {
  const [one, other] = [NUMBERED.exec(before), NUMBERED.exec(after)];
  return one !== null && other !== null && one[1] === other[1] && Number(one[2]) + 1 === Number(other[2]);
}
