/** What is measured of a trial beside its row: each metric, durations, the size of its checkpoints, its slot. Law: pure;
 * ids are the names that the columns of `exp.trials` have in Python.
 */

import { TranslationBundle } from '@jupyterlab/translation';

import { IGoal, IMeasured, ISystem, Value } from '../server/api';
import { numeric } from '../curves/thin';
import { bytes, took } from '../words';
import { IParameter } from './parameters';

/** By trial. */
export type Measurements = ReadonlyMap<number, IMeasured>;

export interface IMeasure {
  readonly id: string;
  readonly label: string;
  /** Under what it is listed: a metric's name, or what else it is. */
  readonly group: string;
  /** How a value is told where it has a unit. */
  readonly unit: 's' | 'B' | null;
  /** Whether only whole numbers have a meaning. */
  readonly whole: boolean;
  /** Whether it is a name instead of a number. */
  readonly named: boolean;
  /** Which way is better, if it is a value of the goal. */
  readonly better?: IGoal['mode'];
  of(measured: IMeasured): number | string | null;
}

/** Names of a trial's own facts that are always columns, here and in `exp.trials`: nothing else is called so. */
const ALWAYS: readonly string[] = ['trial', 'state', 'step', 'mean', 'deviation', 'inexact', 'reason'];
/** These, and those that only the panel's table has. */
const OWN = [...ALWAYS, 'bracket', 'level', 'restarts', 'started', 'ended'];
const MEASURED = ['best', 'best_step', 'duration', 'slot_time', 'setup_time', 'bytes', 'slot'] as const;

/** The id of the goal's column. */
export function goalId(goal: IGoal | null): string {
  const name = goal?.metric ?? 'value';
  return ALWAYS.includes(name) ? `metric.${name}` : name;
}

/** The id of a hyperparameter's column: one may have the name of the goal, such as `loss`, or of another column. */
export function parameterId({ name }: IParameter, goal: IGoal | null): string {
  return ALWAYS.includes(name) || name === goalId(goal) ? `configuration.${name}` : name;
}

/** All that can be measured, metric by metric; `names` has the goal's too. `system`: what is known of its processes. */
export function measuresOf(
  names: readonly string[],
  goal: IGoal | null,
  known: readonly IParameter[],
  trans: TranslationBundle,
  system: readonly ISystem[] = []
): IMeasure[] {
  const taken = new Set([...OWN, goalId(goal), ...known.map(parameter => parameterId(parameter, goal))]);
  const best = goal?.metric ?? trans.__('value');
  const own = (name: (typeof MEASURED)[number]) => (taken.has(name) ? `trial.${name}` : name);
  const measure = (
    id: string,
    label: string,
    group: string,
    of: IMeasure['of'],
    more: Partial<Pick<IMeasure, 'unit' | 'whole' | 'named' | 'better'>> = {}
  ): IMeasure => ({ id, label, group, of, unit: null, whole: false, named: false, ...more });
  const rest = trans.__('Time, storage and place');
  return [
    measure(own('best'), trans.__('best %1', best), best, one => one.best, goal ? { better: goal.mode } : {}),
    measure(own('best_step'), trans.__('step of best %1', best), best, one => one.best_step, { whole: true }),
    ...names
      .filter(name => name !== goal?.metric)
      .flatMap(name => {
        const id = taken.has(name) || MEASURED.some(other => other === name) ? `metric.${name}` : name;
        const of = (part: 'last' | 'low' | 'high' | 'at_best') => (one: IMeasured) => plain(one.metrics[name]?.[part]);
        return [
          measure(id, name, name, of('last')),
          measure(`${id}.low`, trans.__('lowest %1', name), name, of('low')),
          measure(`${id}.high`, trans.__('highest %1', name), name, of('high')),
          measure(`${id}.at_best`, trans.__('%1 at best %2', name, best), name, of('at_best'))
        ];
      }),
    measure(own('duration'), trans.__('duration'), rest, one => one.duration, { unit: 's' }),
    measure(own('slot_time'), trans.__('time in slots'), rest, one => one.slot_time, { unit: 's' }),
    measure(own('setup_time'), trans.__('set-up time'), rest, one => one.setup_time, { unit: 's' }),
    measure(own('bytes'), trans.__('checkpoints'), rest, one => one.bytes, { unit: 'B', whole: true }),
    measure(own('slot'), trans.__('slot'), rest, one => one.slot, { named: true }),
    ...system.map(({ name, title, unit }) => {
      const id = `system/${name}`;
      const isBytes = unit === 'GB';
      return measure(
        taken.has(id) || names.includes(id) ? `trial.${id}` : id,
        isBytes ? title : trans.__('%1 (%2)', title, unit === '%' ? trans.__('share') : unit),
        trans.__('System'),
        one => one.system[name] ?? null,
        isBytes ? { unit: 'B' } : {}
      );
    })
  ];
}

/** A value with a unit as text: `12.3 s`, `1.4 MB`. */
export function withUnit(unit: 's' | 'B', value: number, trans: TranslationBundle): string {
  return unit === 's' ? took(value, trans) : bytes(value);
}

/** The label of an axis, which shows plain numbers. */
export function axisLabel({ label, unit }: IMeasure): string {
  return unit ? `${label} (${unit})` : label;
}

function plain(value: Value | null | undefined): number | null {
  return value === null || value === undefined ? null : numeric(value);
}
