/** What happened to a trial at a rung, in words. Law: pure; the reason is the journal's own if it has one. */

import { TranslationBundle } from '@jupyterlab/translation';

import { ILeg, ITrial } from '../server/api';
import { ILadder } from './data';
import { INode } from './layout';
import { shown } from '../numbers';
import { lasting } from '../words';

export interface IStory {
  /** `t0047 stopped at step 3` */
  readonly title: string;
  /** `bracket 4, step 3, rank 12 of 27` */
  readonly where: string;
  readonly reason: string;
  /** `lr 0.0031 · hidden 64` */
  readonly configuration: string;
  /** `1.8 s on slot 2` */
  readonly leg: string;
}

/** The known legs. */
export interface ILegs {
  to(trial: number, step: number): ILeg | null;
  slot(leg: ILeg): number | null;
}

export function story(
  node: INode,
  ladder: ILadder,
  trials: ReadonlyMap<number, ITrial>,
  legs: ILegs,
  trans: TranslationBundle
): IStory {
  const { entry } = node;
  const at = Number(node.key.split(':')[1]);
  const trial = trials.get(entry.trial);
  const label = trial?.label ?? `t${String(entry.trial).padStart(4, '0')}`;
  const bracket = ladder.brackets[node.panel]!;
  const rung = bracket.rungs[node.column]!;
  const told = rung.entries.filter(({ rank }) => rank !== null).length;
  const where =
    entry.rank === null
      ? trans.__('bracket %1, step %2', bracket.bracket, at)
      : trans.__('bracket %1, step %2, rank %3 of %4', bracket.bracket, at, entry.rank, told);
  return {
    title: title(node, label, at, trans),
    where,
    reason: entry.reason || standing(node, ladder, told, trans),
    configuration: configured(trial?.configuration ?? {}),
    leg: trained(legs, entry.trial, at, trans)
  };
}

/** A configuration on one line. */
export function configured(configuration: Readonly<Record<string, unknown>>): string {
  return Object.entries(configuration)
    .map(([name, value]) => `${name} ${said(value)}`)
    .join(' · ');
}

/** A hyperparameter's value, short. */
export function said(value: unknown): string {
  return typeof value === 'number' ? shown(value) : typeof value === 'string' ? value : JSON.stringify(value);
}

function title({ entry }: INode, label: string, at: number, trans: TranslationBundle): string {
  switch (entry.fate) {
    case 'on':
      return trans.__('%1 went on at step %2', label, at);
    case 'stopped':
      return entry.value === null
        ? trans.__('%1 was stopped before step %2', label, at)
        : trans.__('%1 stopped at step %2', label, at);
    case 'failed':
      return trans.__('%1 failed before step %2', label, at);
    case 'completed':
      return trans.__('%1 completed', label);
    case 'training':
      return trans.__('%1 trains to step %2', label, at);
    case 'lost':
      return trans.__('%1 was interrupted; it is retried', label);
    case 'waiting':
      return entry.value === null
        ? trans.__('%1 waits to train to step %2', label, at)
        : trans.__('%1 waits at step %2', label, at);
  }
}

/** Without a reason in the journal: the value and its present rank. */
function standing({ entry }: INode, { goal }: ILadder, told: number, trans: TranslationBundle): string {
  return entry.rank === null || entry.value === null
    ? ''
    : trans.__('%1 %2 is rank %3 of %4', goal.metric, shown(entry.value), entry.rank, told);
}

function trained(legs: ILegs, trial: number, at: number, trans: TranslationBundle): string {
  const leg = legs.to(trial, at);
  if (!leg || leg.began_s === null) {
    return '';
  }
  const slot = legs.slot(leg);
  const seconds = (leg.left_s ?? Date.now() / 1000) - leg.began_s;
  const time = seconds < 10 ? trans.__('%1 s', seconds.toPrecision(2)) : lasting(seconds, trans);
  const where = slot === null ? time : trans.__('%1 on slot %2', time, slot);
  return leg.attempt > 1 && leg.start === 0 ? trans.__('%1, attempt %2', where, leg.attempt) : where;
}
