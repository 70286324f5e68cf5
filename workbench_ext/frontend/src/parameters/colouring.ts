/** The colours of trials in a picture, and their meaning. Law: pure. */

import { TranslationBundle } from '@jupyterlab/translation';

import { ITrial, State } from '../server/api';
import { categorical, share, spread, stateColour, viridis, visible } from '../chart/colours';
import { goalValue, IParameter, placeOf } from './parameters';
import { stateWord } from '../words';

/** What a picture's colours mean. */
export type Legend =
  | {
      readonly kind: 'amount';
      readonly label: string;
      readonly low: number;
      readonly high: number;
      readonly log: boolean;
      readonly colours: readonly string[];
    }
  | { readonly kind: 'names'; readonly label: string; readonly names: readonly (readonly [string, string])[] };

export interface IColouring {
  of(trial: number): string;
  readonly legend: Legend;
}

/** What colours can represent: `value`, `state`, or `p:` and a hyperparameter's name. */
export type ColourBy = string;

interface IGiven {
  readonly trials: ReadonlyMap<number, ITrial>;
  readonly parameters: readonly IParameter[];
  readonly goal: { readonly metric: string; readonly mode: 'max' | 'min' } | null;
  readonly dark: boolean;
  readonly trans: TranslationBundle;
  /** A trial's value of the goal, if it is not the last one. */
  readonly value?: (trial: ITrial) => number;
}

const UNKNOWN = '#9a9a9a';

export function colouring(by: ColourBy, given: IGiven): IColouring {
  const { trials, parameters, trans } = given;
  const parameter = parameters.find(({ name }) => `p:${name}` === by);
  if (parameter?.kind === 'category') {
    return {
      of: number => {
        const trial = trials.get(number);
        const place = trial ? placeOf(parameter, trial) : NaN;
        return Number.isNaN(place) ? UNKNOWN : categorical(place, given.dark);
      },
      legend: {
        kind: 'names',
        label: parameter.name,
        names: parameter.categories.map((name, k) => [name, categorical(k, given.dark)] as const)
      }
    };
  }
  if (by === 'state') {
    const states = [...new Set([...trials.values()].map(({ state }) => state))];
    return {
      of: number => stateColour(trials.get(number)?.state as State),
      legend: {
        kind: 'names',
        label: trans.__('state'),
        names: states.map(state => [stateWord(state, trans), stateColour(state)] as const)
      }
    };
  }
  return parameter ? byParameter(parameter, given) : byValue(given);
}

function byParameter(parameter: IParameter, { trials, dark }: IGiven): IColouring {
  const scaled = (value: number) => (parameter.log ? Math.log(value) : value);
  const ends: [number, number] = [scaled(parameter.low), scaled(parameter.high)];
  return {
    of: number => {
      const trial = trials.get(number);
      const place = trial ? placeOf(parameter, trial) : NaN;
      return viridis(visible(share(scaled(place), ends), dark));
    },
    legend: {
      kind: 'amount',
      label: parameter.name,
      low: parameter.low,
      high: parameter.high,
      log: parameter.log,
      colours: bar(dark)
    }
  };
}

function byValue({ trials, goal, dark, trans, value = goalValue }: IGiven): IColouring {
  const mode = goal?.mode ?? 'max';
  const ends = spread([...trials.values()].map(value), mode) ?? [0, 1];
  return {
    of: number => {
      const trial = trials.get(number);
      return viridis(visible(trial ? share(value(trial), ends) : NaN, dark));
    },
    legend: {
      kind: 'amount',
      label: goal?.metric ?? trans.__('value'),
      low: ends[0],
      high: ends[1],
      log: false,
      colours: bar(dark)
    }
  };
}

function bar(dark: boolean): string[] {
  return Array.from({ length: 17 }, (_, k) => viridis(visible(k / 16, dark)));
}
