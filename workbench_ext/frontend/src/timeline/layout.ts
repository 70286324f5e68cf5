/** The layout of legs by time and slot. Law: pure; seconds in, pixels out. */

import { ILeg } from '../server/api';

export const ROOM = { left: 76, right: 24, top: 30, bottom: 10 };
const ROW = { least: 15, most: 40 };

/** Incidents that have their own sign. */
export type Incident = 'failed' | 'died' | 'stopped' | 'retried' | 'moved';

export interface IBar {
  readonly leg: ILeg;
  /** The row of its slot, from the top. */
  readonly row: number;
  /** Seconds since 1970; `to` is null while it trains. */
  readonly from: number;
  readonly to: number | null;
  /** How it ended, if that is an incident. */
  readonly end: 'failed' | 'died' | 'stopped' | null;
  /** Why it started although its trial was not at a level: a retry, or a move to another slot. */
  readonly begin: 'retried' | 'moved' | null;
}

export interface IPlace {
  readonly slot: number;
  readonly part: number | null;
}

export interface ITimes {
  /** By slot, then by time. */
  readonly bars: readonly IBar[];
  /** The bars of each row, by time. */
  readonly rows: readonly (readonly IBar[])[];
  /** What each row is: a slot, by its place among `slots`, or a part of one, from 0. */
  readonly places: readonly IPlace[];
  readonly slots: readonly string[];
  readonly first: number;
  readonly last: number;
  readonly training: boolean;
}

/** The visible span in seconds. */
export type Span = readonly [number, number];

/** The legs as bars, in the order of their slots, without legs that never started. */
export function times(legs: readonly ILeg[], slots: readonly string[]): ITimes {
  const order = [...slots].sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  const row = new Map(order.map((slot, at) => [slot, at]));
  const rows: IBar[][] = order.map(() => []);
  const before = new Map<number, ILeg>();
  let [first, last, training] = [Infinity, -Infinity, false];
  for (const leg of [...legs].sort((a, b) => a.attempt - b.attempt)) {
    const from = leg.began_s;
    const place = row.get(slotOf(leg));
    const earlier = before.get(leg.trial);
    before.set(leg.trial, leg);
    if (from === null || place === undefined) {
      continue;
    }
    const to = leg.outcome === null ? leg.left_s : (leg.left_s ?? from);
    rows[place]!.push({ leg, row: place, from, to, end: ending(leg), begin: beginning(leg, earlier) });
    first = Math.min(first, from);
    last = Math.max(last, to ?? from);
    training ||= to === null;
  }
  const places: IPlace[] = [];
  const found = rows.flatMap((bars, slot) => {
    bars.sort((a, b) => a.from - b.from);
    const parts = divided(bars);
    places.push(...parts.map((_, part) => ({ slot, part: parts.length > 1 ? part : null })));
    return parts;
  });
  found.forEach((bars, row) =>
    bars.forEach((bar, at) => {
      const next = bars[at + 1];
      // The next one started before the end of the last was reported: a slot, or a part of one, trains one at a time.
      const to = next && bar.to !== null && bar.to > next.from ? next.from : bar.to;
      bars[at] = { ...bar, row, to };
    })
  );
  return { bars: found.flat(), rows: found, places, slots: order, first, last, training };
}

/** The bars of a slot, by time, in a row for each of its parts that was in use at the same time as others. */
function divided(bars: readonly IBar[]): IBar[][] {
  const parts: IBar[][] = [[]];
  const end = (part: readonly IBar[]) => (part.length ? (part[part.length - 1]!.to ?? Infinity) : -Infinity);
  for (const bar of bars) {
    let part = parts.find(one => end(one) <= bar.from);
    if (!part && parts.length < bar.leg.parts) {
      parts.push((part = []));
    }
    (part ?? parts.reduce((least, one) => (end(one) < end(least) ? one : least))).push(bar);
  }
  return parts;
}

/** The key of a slot. */
export function slotOf({ slot, worker }: ILeg): string {
  return String(slot ?? worker);
}

/** The share of slots that trained between two times, 0 to 1; null if the span is empty. */
export function use({ bars, slots }: ITimes, [from, to]: Span, now: number): number | null {
  if (to <= from || slots.length === 0) {
    return null;
  }
  let seconds = 0;
  for (const bar of bars) {
    seconds += Math.max(0, Math.min(bar.to ?? now, to) - Math.max(bar.from, from)) / bar.leg.parts;
  }
  return Math.min(1, seconds / ((to - from) * slots.length));
}

/** The height of a row, given the number of rows and the page's height. */
export function rowHeight(count: number, height: number): number {
  const even = (height - ROOM.top - ROOM.bottom) / Math.max(count, 1);
  return Math.max(ROW.least, Math.min(ROW.most, even));
}

/** Times for grid lines, and their labels: seconds since `zero`. */
export function ticks([from, to]: Span, zero: number, width: number): { at: number; label: string }[] {
  const wanted = ((to - from) / Math.max(width, 1)) * 90;
  const step = STEPS.find(one => one >= wanted) ?? Math.ceil(wanted / 86400) * 86400;
  const found = [];
  for (let k = Math.ceil((from - zero) / step); zero + k * step <= to; k++) {
    found.push({ at: zero + k * step, label: elapsed(k * step, step) });
  }
  return found;
}

/** Zoom a span in (`by` below 1) or out, around a fixed time. */
export function zoomed([from, to]: Span, around: number, by: number, whole: Span): Span {
  const most = (whole[1] - whole[0]) * 1.2;
  const wide = Math.max(0.02, Math.min(most, (to - from) * by));
  const part = (around - from) / Math.max(to - from, 1e-9);
  return [around - part * wide, around + (1 - part) * wide];
}

/** The bar at a time in a row; within `slack` seconds, so that a short one can be pointed at. */
export function barAt(bars: readonly IBar[], time: number, slack: number, now: number): IBar | null {
  let best: IBar | null = null;
  let least = slack;
  for (const bar of bars) {
    const apart = Math.max(bar.from - time, time - (bar.to ?? now), 0);
    if (apart < least || (apart === 0 && best === null)) {
      [best, least] = [bar, apart];
    }
  }
  return best;
}

/** The next bar for an arrow key. */
export function beside({ rows }: ITimes, bar: IBar, key: string): IBar | null {
  const own = rows[bar.row]!;
  const at = own.indexOf(bar);
  switch (key) {
    case 'ArrowLeft':
      return own[at - 1] ?? null;
    case 'ArrowRight':
      return own[at + 1] ?? null;
    case 'Home':
      return own[0] ?? null;
    case 'End':
      return own[own.length - 1] ?? null;
    case 'ArrowUp':
    case 'ArrowDown': {
      const forth = key === 'ArrowDown' ? 1 : -1;
      for (let row = bar.row + forth; rows[row]; row += forth) {
        const found = rows[row]!.reduce<IBar | null>(
          (best, one) => (!best || Math.abs(one.from - bar.from) < Math.abs(best.from - bar.from) ? one : best),
          null
        );
        if (found) {
          return found;
        }
      }
      return null;
    }
    default:
      return null;
  }
}

const STEPS: readonly number[] = [
  ...[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30],
  ...[60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400]
];

function elapsed(seconds: number, step: number): string {
  if (step < 1) {
    return `${seconds.toFixed(step < 0.1 ? 2 : 1)} s`;
  }
  if (Math.abs(seconds) < 60 && step < 60) {
    return `${seconds} s`;
  }
  const whole = Math.abs(Math.round(seconds));
  const two = (part: number) => String(part).padStart(2, '0');
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const sign = seconds < 0 ? '−' : '';
  return step >= 60
    ? `${sign}${hours}:${two(minutes)} h`
    : `${sign}${hours ? `${hours}:${two(minutes)}` : minutes}:${two(rest)}`;
}

function ending({ outcome }: ILeg): IBar['end'] {
  return outcome === 'failed' || outcome === 'died' || outcome === 'stopped' ? outcome : null;
}

function beginning(leg: ILeg, earlier: ILeg | undefined): IBar['begin'] {
  if (!earlier || earlier.outcome === 'reached' || earlier.outcome === 'completed') {
    return null;
  }
  return slotOf(earlier) === slotOf(leg) || earlier.began_s === null ? 'retried' : 'moved';
}
