/** A rung as it is folded, and in the order of its ranks. Law: pure. */

import { Value } from '../server/api';
import { Fate, IEntry, ILadder, IRung } from './data';

/** A trial at a rung while it is folded. */
// eslint-disable-next-line @typescript-eslint/naming-convention -- the fold's own, which changes; IEntry is what is sent
export interface Entry {
  readonly trial: number;
  readonly from: number;
  value: number | null;
  fate: Fate;
  reason: string;
}

export class Rung {
  constructor(
    readonly step: number,
    readonly places: number | null
  ) {}

  readonly entries = new Map<number, Entry>();
  /** What was given last; null when something changed since. */
  given: IRung | null = null;
}

/** A rung by rank; the object of the last time where nothing changed. The top rung has no cut. */
export function ranked(rung: Rung, isTop: boolean, rule: ILadder['rule'], sign: number): IRung {
  if (rung.given) {
    return rung.given;
  }
  const key = ({ value }: Entry) => (Number.isFinite(value) ? sign * value! : Infinity);
  const all = [...rung.entries.values()];
  const told = all
    .filter(({ value }) => value !== null)
    .sort((a, b) => {
      const [one, other] = [key(a), key(b)];
      return one === other ? a.trial - b.trial : one - other;
    });
  const others = all.filter(({ value }) => value === null).sort((a, b) => a.trial - b.trial);
  const { cut, going } = isTop ? { cut: null, going: 0 } : cutOf(told, rule);
  const entries = [...told.map((entry, at) => shown(entry, at + 1)), ...others.map(entry => shown(entry, null))];
  return (rung.given = { step: rung.step, places: rung.places, cut, going, entries });
}

/** The value of the last rank that goes on, and how many do; no value where all of them do. */
function cutOf(told: readonly Entry[], rule: ILadder['rule']): { cut: number | null; going: number } {
  let going = 0;
  if (rule.kind === 'hyperband') {
    told.forEach(({ fate }, at) => {
      going = fate === 'on' ? at + 1 : going;
    });
  } else if (rule.kind === 'asha') {
    going = Math.floor(told.length / rule.eta!);
    if (rule.mode === 'stop' && told.length > 0) {
      going = Math.max(1, going);
    }
  } else {
    return { cut: null, going: 0 };
  }
  const last = going > 0 && going < told.length ? told[going - 1]!.value : null;
  return { cut: Number.isFinite(last) ? last : null, going };
}

function shown({ trial, value, fate, reason, from }: Entry, rank: number | null): IEntry {
  return { trial, value: value === null ? null : word(value), rank, fate, reason, from };
}

function word(value: number): Value {
  return Number.isNaN(value) ? 'nan' : Number.isFinite(value) ? value : value > 0 ? 'inf' : '-inf';
}

/** A number as an event writes it: nan and infinities may be words, and nan may be nothing. */
export function number(value: Value | null): number {
  return typeof value === 'number' ? value : value === 'inf' ? Infinity : value === '-inf' ? -Infinity : NaN;
}
