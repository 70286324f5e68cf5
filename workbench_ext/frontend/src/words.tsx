/** States, numbers and times as text. Law: pure. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { parted, shown } from './numbers';
import { IExperiment, State, Value } from './server/api';

/** A sign beside each state's word, so that neither colour nor language is needed to distinguish them. */
const SIGNS: Readonly<Record<State, string>> = {
  waiting: '…',
  'setting up': '⧗',
  running: '▶',
  paused: '‖',
  stopping: '▣',
  completed: '✓',
  stopped: '■',
  failed: '✕',
  unreadable: '?'
};

/** A state as text. */
export function stateWord(state: string, trans: TranslationBundle): string {
  const words: Readonly<Record<string, string>> = {
    waiting: trans.__('waiting'),
    'setting up': trans.__('setting up'),
    running: trans.__('running'),
    paused: trans.__('paused'),
    stopping: trans.__('stopping'),
    completed: trans.__('completed'),
    stopped: trans.__('stopped'),
    failed: trans.__('failed'),
    unreadable: trans.__('unreadable')
  };
  return words[state] ?? state;
}

/** A state: sign and word; of a trial that is setting up also since when. */
export function StateMark(props: { state: State; since?: string | null; trans: TranslationBundle }): React.JSX.Element {
  return (
    <span className={`wb-State wb-mod-${props.state.replace(' ', '-')}`}>
      <span className="wb-State-sign" aria-hidden="true">
        {SIGNS[props.state] ?? '?'}
      </span>{' '}
      {sinceWord(props.state, props.since, props.trans)}
    </span>
  );
}

/** `setting up since 14:05`; other states as they are. */
export function sinceWord(state: State, since: string | null | undefined, trans: TranslationBundle): string {
  return state === 'setting up' && since ? trans.__('setting up since %1', clock(since)) : stateWord(state, trans);
}

/** `2 trials setting up`; empty if none is. */
export function settingUp(counts: IExperiment['counts'], trans: TranslationBundle): string {
  const count = counts?.['setting up'] ?? 0;
  return count ? trans._n('%1 trial setting up', '%1 trials setting up', count) : '';
}

/** Whether a goal is nan or infinite: such a trial has diverged. */
export function hasDiverged(value: Value | null | undefined): boolean {
  return typeof value === 'string';
}

/** An experiment's label. Where there is little room its name is shortened, never its version. */
export function Label({ label, className }: { label: string; className: string }): React.JSX.Element {
  const [name, version] = parted(label);
  return (
    <span className={`wb-Label ${className}`} title={label}>
      <span className="wb-Label-name">{name}</span>
      <span>{version}</span>
    </span>
  );
}

/** `1.4 GB` */
export function bytes(count: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (count >= 999.5 && unit < units.length - 1) {
    count /= 1000;
    unit += 1;
  }
  return `${unit === 0 || count >= 99.5 ? Math.round(count) : Number(count.toPrecision(2))} ${units[unit]}`;
}

/** `17 of 49 trials ended`: the same count as in the cell and on the command line, and as the bar shows it. */
export function counted(trials: IExperiment['trials'], trans: TranslationBundle): string {
  return trans.__('%1 of %2 trials ended', trials.ended, trials.of);
}

/** `mean 0.95 ± 0.018 of 6 trials`, if the best configuration has several. */
export function spreadWords(best: IExperiment['best'], trans: TranslationBundle): string | null {
  const of = best?.of;
  if (of && of.trials > 1 && of.deviation === 0) {
    return trans.__('mean %1 ± 0 (the same bits) of %2 trials', shown(of.mean), of.trials);
  }
  return of ? trans.__('mean %1 ± %2 of %3 trials', shown(of.mean), shown(of.deviation), of.trials) : null;
}

/** `2 h 5 min` */
export function lasting(seconds: number, trans: TranslationBundle): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) {
    return trans.__('%1 s', whole);
  }
  const minutes = Math.round(whole / 60);
  if (minutes < 60) {
    return trans.__('%1 min', minutes);
  }
  const hours = Math.floor(minutes / 60);
  if (hours < 48) {
    return minutes % 60 ? trans.__('%1 h %2 min', hours, minutes % 60) : trans.__('%1 h', hours);
  }
  return trans.__('%1 d', Math.round(hours / 24));
}

/** How long something took: `0.42 s`, `12.3 s`, `4 min 5 s`, `2 h 5 min`. */
export function took(seconds: number, trans: TranslationBundle): string {
  if (!Number.isFinite(seconds)) {
    return '–';
  }
  const tenths = Math.round(seconds * 10) / 10;
  if (tenths < 60) {
    return trans.__('%1 s', seconds < 1 ? Number(seconds.toPrecision(2)) : tenths.toFixed(1));
  }
  const whole = Math.round(seconds);
  return whole < 3600 ? trans.__('%1 min %2 s', Math.floor(whole / 60), whole % 60) : lasting(whole, trans);
}

/** How long ago, as `5 min`; `now` within the minute, and empty if there is no time. */
export function age(time: string, trans: TranslationBundle, now = Date.now()): string {
  const minutes = Math.floor((now - Date.parse(time)) / 60000);
  if (!Number.isFinite(minutes)) {
    return '';
  }
  if (minutes < 1) {
    return trans.__('now');
  }
  if (minutes < 60) {
    return trans.__('%1 min', minutes);
  }
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? trans.__('%1 h', hours) : trans.__('%1 d', Math.floor(hours / 24));
}

/** A time in the user's zone: `14:05` today, `3 Nov 14:05` before, with the year if it is another. */
export function clock(time: string, now = new Date()): string {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) {
    return '';
  }
  const minute = at.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', hour12: false });
  const year = at.getFullYear() === now.getFullYear() ? {} : ({ year: 'numeric' } as const);
  return at.toDateString() === now.toDateString()
    ? minute
    : `${at.toLocaleDateString([], { day: 'numeric', month: 'short', ...year })} ${minute}`;
}
