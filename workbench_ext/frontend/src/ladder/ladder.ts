/**
 * A search as a picture: brackets, rungs, ranks. Law: a pure fold of the journal's events; it decides nothing.
 *
 * The rules are those of `src/workbench/store/ladder.py`, line by line; both are tested on the journals under
 * `tests/fixtures/ladder`. What either has folded, the other can fold on.
 */

import { IEvent, IGoal } from '../server/api';
import { Fate, IHappened, ILadder, IPlan, IStanding } from './data';
import { Entry, Rung, number, ranked } from './rank';

// eslint-disable-next-line @typescript-eslint/naming-convention -- the fold's own, which changes; IBracket is what is sent
interface Bracket {
  readonly bracket: number;
  readonly turn: number;
  readonly first: number | null;
  readonly rungs: Rung[];
}

/** A trial of which nothing was told yet. */
const NOWHERE: IStanding = {
  bracket: 0,
  step: 0,
  until: null,
  at: null,
  live: false,
  leaving: false,
  level: 0,
  value: null,
  diverged: false
};

type Mutable<T> = { -readonly [key in keyof T]: T[key] };
type Trial = Mutable<IStanding>;

export class Ladder {
  constructor(plan: IPlan | ILadder) {
    this._goal = plan.goal;
    this._rule = plan.rule;
    this._sign = plan.goal.mode === 'max' ? -1 : 1;
    this._brackets = plan.brackets.map(({ bracket, turn, first, rungs }) => ({
      bracket,
      turn,
      first,
      rungs: rungs.map(({ step, places }) => new Rung(step, places))
    }));
    this._firsts = this._brackets.flatMap(({ first }) => (first === null ? [] : [first]));
    if ('n' in plan) {
      this._goOn(plan);
    }
  }

  /** The journal's line that was folded last. */
  get n(): number {
    return this._n;
  }

  /** Take events in their order; those that were taken before change nothing. */
  fold(events: Iterable<IEvent>): this {
    for (const event of events) {
      if (event.n > this._n) {
        this._n = event.n;
        this._take[event.kind]?.(event);
      }
    }
    return this;
  }

  /** The whole ladder. Rungs in which nothing changed are the objects of the last time. */
  snapshot(): ILadder {
    return {
      n: this._n,
      goal: this._goal,
      rule: this._rule,
      brackets: this._brackets.map(({ bracket, turn, first, rungs }) => ({
        bracket,
        turn,
        first,
        rungs: rungs.map((rung, at) => ranked(rung, at === rungs.length - 1, this._rule, this._sign))
      })),
      trials: Object.fromEntries([...this._trials].map(([number, trial]) => [number, { ...trial }])),
      told: this._told,
      best: this._best,
      happened: [...this._happened]
    };
  }

  private readonly _take: Readonly<Record<string, (event: IEvent) => void>> = {
    Run: event => this._run(event),
    LegStarted: event => this._legStarted(event),
    LegLeft: event => this._legLeft(event),
    Reached: event => this._reached(event),
    Ended: event => this._ended(event),
    Stop: event => this._stop(event),
    StopAsked: () => {
      this._told = null; // the orders that follow are a person's
    },
    Settle: event => this._settle(event),
    Lost: event => this._lost(event),
    Finish: event => this._happen(event, 'ended', { state: event.state }),
    PauseAsked: event => this._happen(event, 'paused', {}),
    ResumeAsked: event => this._happen(event, 'resumed', {}),
    Extended: event => this._happen(event, 'extended', {})
  };

  private _run(event: IEvent): void {
    const number = event.trial!;
    const trial = this._trial(number, event);
    const before = this._entry(trial, number, trial.step);
    // A longer search takes back ends, too.
    if (before && before.fate !== 'on' && before.value !== null) {
      before.fate = 'on';
      before.reason = event.reason ?? '';
    }
    const entry = this._enter(trial, number, this._above(trial, trial.step, event.until!));
    if (entry) {
      entry.fate = 'waiting';
      entry.reason = event.reason ?? '';
    }
    trial.until = event.until!;
    trial.leaving = false;
  }

  private _legStarted(event: IEvent): void {
    const trial = this._trials.get(event.trial!);
    if (!trial || trial.until === null) {
      return;
    }
    trial.live = true;
    const entry = this._entry(trial, event.trial!, trial.at);
    if (entry) {
      entry.fate = 'training';
    }
  }

  private _legLeft(event: IEvent): void {
    const trial = this._trials.get(event.trial!);
    if (!trial) {
      return;
    }
    trial.live = false;
    const entry = this._entry(trial, event.trial!, trial.at);
    if (entry && entry.fate === 'training') {
      entry.fate = 'waiting'; // the fact that follows says what for
    }
  }

  private _reached(event: IEvent): void {
    const number = event.trial!;
    const step = event.step!;
    const trial = this._trials.get(number);
    if (!trial || trial.until === null || step <= trial.step || step > trial.until) {
      return;
    }
    if (!this._rung(trial, step)) {
      return;
    }
    if (trial.leaving) {
      if (step !== this._top(trial)) {
        return;
      }
      this._comesThrough(trial, number);
    }
    const entry = this._enter(trial, number, step)!;
    this._tell(event, trial, entry, step);
    entry.reason = '';
    if (step === trial.until) {
      entry.fate = 'waiting';
      trial.until = null;
    } else {
      // The leg trains on unless it is told otherwise in the same breath.
      entry.fate = 'on';
      const ahead = this._enter(trial, number, this._above(trial, step, trial.until))!;
      ahead.fate = trial.live ? 'training' : 'waiting';
    }
    this._told = number;
  }

  private _ended(event: IEvent): void {
    const number = event.trial!;
    const trial = this._trials.get(number);
    if (!trial || trial.until === null) {
      return;
    }
    if (trial.leaving) {
      this._comesThrough(trial, number);
    }
    // It stands at the level that it came to, or was on its way to.
    const entry = this._enter(trial, number, this._above(trial, event.step! - 1, trial.until));
    if (entry) {
      // A trial whose code came to its own end is as complete as one that took all steps.
      this._tell(event, trial, entry, this._top(trial));
      entry.fate = 'waiting';
    }
    trial.until = null;
  }

  private _stop(event: IEvent): void {
    const number = event.trial!;
    const trial = this._trials.get(number);
    if (!trial || event.then === 'paused') {
      return;
    }
    trial.leaving = true;
    let entry = this._entry(trial, number, trial.at);
    if (!entry) {
      return;
    }
    if (this._told === number && trial.until !== null && entry.value === null) {
      const told = this._entry(trial, number, trial.step);
      if (told) {
        this._leave(trial, number);
        trial.at = trial.step;
        told.fate = 'stopped';
        entry = told;
      }
    }
    entry.reason = event.reason ?? '';
  }

  private _settle(event: IEvent): void {
    const number = event.trial!;
    const trial = this._trial(number, event);
    let entry = this._entry(trial, number, trial.at);
    if (!entry) {
      // It was stopped before its turn.
      const first = this._brackets[trial.bracket]!.rungs[0];
      entry = first && this._enter(trial, number, first.step);
    }
    if (entry) {
      entry.fate = event.state === 'paused' ? 'waiting' : (event.state as Fate);
      entry.reason = event.reason ?? '';
    }
    trial.until = null;
    if (event.state === 'failed') {
      this._happen(event, 'failure', { trial: number });
    }
  }

  private _lost(event: IEvent): void {
    const trial = this._trials.get(event.trial!);
    if (!trial || trial.until === null) {
      return;
    }
    const entry = this._entry(trial, event.trial!, trial.at);
    if (entry) {
      entry.fate = 'lost';
      entry.reason = event.reason ?? '';
    }
    trial.until = null;
    this._happen(event, 'retry', { trial: event.trial! });
  }

  private _trial(number: number, event: IEvent): Trial {
    let trial = this._trials.get(number);
    if (!trial) {
      const bracket = this._place(number, event.bracket ?? 0);
      trial = { ...NOWHERE, bracket };
      this._trials.set(number, trial);
    }
    return trial;
  }

  /** Which of the brackets a trial belongs to: trials are numbered through them, in the order of the plan. */
  private _place(number: number, bracket: number): number {
    if (this._firsts.length > 0) {
      return Math.max(0, above(this._firsts, number, first => first) - 1);
    }
    const known = this._brackets.findIndex(one => one.bracket === bracket);
    return known >= 0 ? known : this._brackets.push({ bracket, turn: 0, first: null, rungs: [] }) - 1;
  }

  /** The rung at `step`; of an older journal, whose plan is not known, a new one. */
  private _rung(trial: Trial, step: number): Rung | undefined {
    const { first, rungs } = this._brackets[trial.bracket]!;
    const at = above(rungs, step, rung => rung.step);
    if (rungs[at - 1]?.step === step) {
      return rungs[at - 1];
    }
    if (first !== null) {
      return undefined;
    }
    if (at > 0) {
      rungs[at - 1]!.given = null; // the top rung has no cut, and it may be the top no more
    }
    const rung = new Rung(step, null);
    rungs.splice(at, 0, rung);
    return rung;
  }

  /** The next step after `step` at which a leg to `until` is compared. */
  private _above(trial: Trial, step: number, until: number): number {
    const { rungs } = this._brackets[trial.bracket]!;
    return Math.min(until, rungs[above(rungs, step, rung => rung.step)]?.step ?? until);
  }

  private _top(trial: Trial): number {
    const { rungs } = this._brackets[trial.bracket]!;
    return rungs[rungs.length - 1]!.step;
  }

  /** The entry, to be changed. */
  private _entry(trial: Trial, number: number, step: number | null): Entry | undefined {
    const rung = step ? this._rung(trial, step) : undefined;
    const entry = rung?.entries.get(number);
    if (rung && entry) {
      rung.given = null;
    }
    return entry;
  }

  /** It was done before the order to stop arrived: so it went on from the last rung. */
  private _comesThrough(trial: Trial, number: number): void {
    const entry = this._entry(trial, number, trial.step);
    if (entry) {
      entry.fate = 'on';
    }
  }

  /** The trial's entry at `step`, new where it has none; one further up that nothing was told of goes. */
  private _enter(trial: Trial, number: number, step: number): Entry | undefined {
    const rung = this._rung(trial, step);
    if (!rung) {
      return undefined;
    }
    if (trial.at !== null && trial.at !== step && trial.at > trial.step) {
      this._leave(trial, number);
    }
    trial.at = step;
    rung.given = null;
    let entry = rung.entries.get(number);
    if (!entry) {
      entry = { trial: number, from: trial.step, value: null, fate: 'waiting', reason: '' };
      rung.entries.set(number, entry);
    }
    return entry;
  }

  private _leave(trial: Trial, number: number): void {
    const rung = this._rung(trial, trial.at ?? 0);
    if (rung) {
      rung.entries.delete(number);
      rung.given = null;
    }
  }

  private _tell(event: IEvent, trial: Trial, entry: Entry, level: number): void {
    trial.step = event.step!;
    const value = number(event.value ?? null);
    entry.value = value;
    if ((event.value ?? null) === null) {
      return;
    }
    trial.diverged = !Number.isFinite(value);
    if (!trial.diverged) {
      trial.level = level;
      trial.value = value;
    } else if (trial.value === null) {
      return;
    }
    const before = this._best;
    const known = before === null ? entry.trial : before.trial;
    let found = this._isBetter(entry.trial, known) ? entry.trial : known;
    if (trial.diverged && known === entry.trial) {
      for (const [number, one] of this._trials) {
        found = one.value !== null && this._isBetter(number, found) ? number : found;
      }
    }
    const better = this._trials.get(found)!;
    const best = { trial: found, step: better.level, value: better.value! };
    if (before?.trial !== found || before.step !== best.step || before.value !== best.value) {
      this._best = best;
      this._happen(event, 'best', { trial: found, value: best.value });
    }
  }

  /** Whether the first trial stands better; one that has diverged comes after all others. */
  private _isBetter(number: number, than: number): boolean {
    const [one, other] = [this._trials.get(number)!, this._trials.get(than)!];
    if (one.diverged !== other.diverged) {
      return other.diverged;
    }
    if (one.level !== other.level) {
      return one.level > other.level;
    }
    const apart = this._sign * (one.value! - other.value!);
    return apart === 0 ? number < than : apart < 0;
  }

  private _happen({ n, at }: IEvent, kind: string, more: Partial<IHappened>): void {
    this._happened.push({ n, at, kind, ...more });
  }

  private _goOn(ladder: ILadder): void {
    this._n = ladder.n;
    this._best = ladder.best;
    this._told = ladder.told;
    this._happened.push(...ladder.happened);
    ladder.brackets.forEach((bracket, at) =>
      bracket.rungs.forEach((given, on) => {
        const rung = this._brackets[at]!.rungs[on]!;
        for (const { trial, value, fate, reason, from } of given.entries) {
          const told = value === null ? null : number(value);
          rung.entries.set(trial, { trial, value: told, fate, reason, from });
        }
        rung.given = given;
      })
    );
    for (const [label, trial] of Object.entries(ladder.trials)) {
      this._trials.set(Number(label), { ...NOWHERE, ...trial });
    }
  }

  private _best: ILadder['best'] = null;
  private readonly _brackets: Bracket[];
  private readonly _firsts: readonly number[];
  private readonly _goal: IGoal;
  private readonly _happened: IHappened[] = [];
  private _n = 0;
  private readonly _rule: ILadder['rule'];
  private readonly _sign: number;
  /** The trial whose value was the last fact: an order that follows is the rule's own answer to it. */
  private _told: number | null = null;
  private readonly _trials = new Map<number, Trial>();
}

/** How many of a rising list are not above `step`. */
function above<T>(list: readonly T[], step: number, of: (one: T) => number): number {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (of(list[middle]!) <= step) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}
