/** Numbers as text. Law: pure; a number that is not whole is never shown as a whole one. */

import { Value } from './server/api';
import { numeric } from './curves/thin';

/** Significant digits, and the most where fewer would look whole: float32 has no more than these. */
const DIGITS = 4;
const MOST_DIGITS = 9;
/** The most decimals that a column has; where its values need more, each has its own. */
const MOST_DECIMALS = 6;
/** As wide as a digit, and invisible. */
const FIGURE_SPACE = '\u2007';

/** A number as text: four significant digits, and powers of ten only if it would be long. */
export function shown(value: Value | null | undefined): string {
  const number = numeric(value);
  if (!Number.isFinite(number)) {
    return value === null || value === undefined ? '–' : Number.isNaN(number) ? 'nan' : number > 0 ? '∞' : '−∞';
  }
  const size = Math.abs(number);
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) {
    const [mantissa, power] = number.toExponential(DIGITS - 1).split('e') as [string, string];
    return minus(`${Number(mantissa)}e${Number(power)}`);
  }
  return minus(String(rounded(number)));
}

/** Four significant digits, or as many more as show that the number is not whole. */
export function rounded(number: number): number {
  if (Number.isInteger(number)) {
    return number;
  }
  for (let digits = DIGITS; digits <= MOST_DIGITS; digits += 1) {
    const found = Number(number.toPrecision(digits));
    if (!Number.isInteger(found)) {
      return found;
    }
  }
  return Number(number.toPrecision(DIGITS));
}

/** How all numbers of a column are shown. Two formats with the same key show the same. */
export interface IFormat {
  readonly key: string;
  of(value: number): string;
}

/**
 * A format for right-aligned numbers that puts their decimal points below each other. All get the same decimals: as many
 * as the largest that is not whole needs for four digits, and more where one would otherwise look whole, or have fewer than two digits.
 */
export function aligned(values: readonly number[]): IFormat {
  const found = values.filter(Number.isFinite);
  const size = Math.max(...found.map(Math.abs), 0);
  if (found.every(Number.isInteger) && size < 1e9) {
    return { key: 'whole', of: value => (Number.isFinite(value) ? minus(String(rounded(value))) : shown(value)) };
  }
  const exact = Math.max(...found.map(decimals));
  const broken = Math.max(...found.filter(value => !Number.isInteger(value)).map(Math.abs), 0);
  const whole = broken < 1 ? 0 : Math.floor(Math.log10(broken)) + 1;
  let fixed = Math.min(Math.max(DIGITS - whole, 0), exact);
  while (fixed < Math.min(exact, MOST_DECIMALS) && !found.every(value => tells(value, fixed))) {
    fixed += 1;
  }
  if (size < 1e6 && found.every(value => tells(value, fixed))) {
    const of = (value: number) => (Number.isFinite(value) ? minus(value.toFixed(fixed)) : shown(value));
    return { key: `fixed ${fixed}`, of };
  }
  const room = Math.max(...found.map(value => tail(shown(value)).length));
  return { key: `apart ${room}`, of: value => shown(value) + FIGURE_SPACE.repeat(room - tail(shown(value)).length) };
}

/** Labels of an axis's ticks, which are equally far apart: each exact, all with the same decimals. */
export function tickLabels(ticks: readonly number[]): string[] {
  const step = Math.abs((ticks[1] ?? NaN) - ticks[0]!);
  const size = Math.max(...ticks.map(Math.abs), 0);
  if (!(step > 0) || step < 1e-7 || size >= 1e6) {
    return ticks.map(shown);
  }
  // The distance is 1, 2 or 5 times a power of ten.
  const fixed = Math.max(-Math.floor(Math.log10(step) + 1e-9), 0);
  return size < 1e-3 ? ticks.map(shown) : ticks.map(at => minus(at === 0 ? '0' : at.toFixed(fixed)));
}

/** Whether `fixed` decimals show a value as what it is: whole only if it is, and with two digits unless it has fewer. */
function tells(value: number, fixed: number): boolean {
  if (Number.isInteger(value)) {
    return true;
  }
  const number = Number(value.toFixed(fixed));
  return !Number.isInteger(number) && Math.abs(number - value) <= Math.abs(value) / 20;
}

/** The decimals of a number that is rounded to what is shown of it. */
function decimals(value: number): number {
  const [mantissa, power] = rounded(value).toExponential().split('e') as [string, string];
  return Math.max((mantissa.split('.')[1] ?? '').length - Number(power), 0);
}

/** The text from the decimal point on. */
function tail(text: string): string {
  return /(?:\.|e).*$/.exec(text)?.[0] ?? '';
}

function minus(text: string): string {
  return text.replaceAll('-', '−');
}

/** `digits` and `@2`: where a label is shortened, its version stays. */
export function parted(label: string): readonly [name: string, version: string] {
  const at = /@\d+$/.exec(label)?.index ?? label.length;
  return [label.slice(0, at), label.slice(at)];
}

/** A label of at most `most` characters, its name shortened and its version whole. */
export function shortened(label: string, most: number): string {
  const [name, version] = parted(label);
  return label.length <= most ? label : `${name.slice(0, Math.max(most - version.length - 1, 1))}…${version}`;
}
