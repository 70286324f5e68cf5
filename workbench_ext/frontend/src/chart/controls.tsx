/** The controls that views share. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { Mode } from './plot';

/** Something that can be chosen, and under what it is listed. */
export interface IOption {
  readonly value: string;
  readonly label: string;
  readonly group?: string;
}

export function Choice(props: {
  label: string;
  value: string;
  options: readonly (IOption | readonly [value: string, label: string])[];
  onChange(value: string): void;
}): React.JSX.Element {
  return (
    <label className="wb-Control">
      {props.label}
      <select value={props.value} onChange={event => props.onChange(event.target.value)}>
        {grouped(props.options.map(option)).map(([group, options]) => {
          const items = options.map(({ value, label }) => (
            <option key={value} value={value}>
              {label}
            </option>
          ));
          return group ? (
            <optgroup key={group} label={group}>
              {items}
            </optgroup>
          ) : (
            items
          );
        })}
      </select>
    </label>
  );
}

function option(given: IOption | readonly [value: string, label: string]): IOption {
  return 'value' in given ? given : { value: given[0], label: given[1] };
}

/** By group, in the order in which the groups first appear; options without one come under an empty name. */
function grouped<T extends IOption>(options: readonly T[]): [group: string, options: T[]][] {
  const groups = new Map<string, T[]>();
  for (const one of options) {
    groups.set(one.group ?? '', [...(groups.get(one.group ?? '') ?? []), one]);
  }
  return [...groups];
}

export function Tick(props: {
  label: string;
  value: boolean;
  caption?: string;
  onChange(value: boolean): void;
}): React.JSX.Element {
  return (
    <label className="wb-Control" title={props.caption}>
      <input type="checkbox" checked={props.value} onChange={event => props.onChange(event.target.checked)} />
      {props.label}
    </label>
  );
}

/** How much the past counts where curves are smoothed: 0, not at all, to below 1. */
export function Smoothing(props: {
  trans: TranslationBundle;
  weight: number;
  onWeight(weight: number): void;
}): React.JSX.Element {
  const { trans, weight } = props;
  return (
    <label className="wb-Control">
      {trans.__('Smoothing')}
      <input
        type="range"
        min={0}
        max={0.99}
        step={0.01}
        value={weight}
        aria-valuetext={weight === 0 ? trans.__('off') : String(weight)}
        onChange={event => props.onWeight(Number(event.target.value))}
      />
      <output>{weight.toFixed(2)}</output>
    </label>
  );
}

/** What dragging does, and the way back. */
export function Modes(props: {
  trans: TranslationBundle;
  mode: Mode;
  zoomed: boolean;
  onMode(mode: Mode): void;
  onReset(): void;
}): React.JSX.Element {
  const { trans } = props;
  const modes: readonly (readonly [Mode, string, string])[] = [
    ['zoom', trans.__('Zoom'), trans.__('Drag or use the wheel to zoom')],
    ['select', trans.__('Select'), trans.__('Drag to select trials; in other modes hold Shift')],
    ['pan', trans.__('Move'), trans.__('Drag to move the picture; the middle button works in every mode')]
  ];
  return (
    <span className="wb-Modes" role="group" aria-label={trans.__('Dragging')}>
      {modes.map(([mode, label, caption]) => (
        <button
          key={mode}
          type="button"
          title={caption}
          aria-pressed={props.mode === mode}
          onClick={() => props.onMode(mode)}
        >
          {label}
        </button>
      ))}
      <button
        type="button"
        disabled={!props.zoomed}
        onClick={props.onReset}
        title={trans.__('Show all (double-click)')}
      >
        {trans.__('All')}
      </button>
    </span>
  );
}

/** Pixels between a list and the edge of its view, at least. */
const EDGE = 8;

/** Boxes to tick, in a list that opens below its button and closes when the focus leaves it. */
export function Picker(props: {
  label: string;
  choices: readonly (IOption & { readonly chosen: boolean })[];
  onChange(id: string, chosen: boolean): void;
}): React.JSX.Element {
  const [open, setOpen] = React.useState(false);
  const host = React.useRef<HTMLSpanElement>(null);
  const list = React.useRef<HTMLSpanElement>(null);
  // It opens to the left, and where that is beyond the view's edge, further right.
  React.useLayoutEffect(() => {
    const view = host.current?.closest('.wb-View')?.getBoundingClientRect();
    if (list.current && view) {
      const beyond = view.left + EDGE - list.current.getBoundingClientRect().left;
      list.current.style.right = `${Math.min(-beyond, 0)}px`;
    }
  }, [open]);
  return (
    <span
      className="wb-Menu"
      ref={host}
      onBlur={event => !host.current?.contains(event.relatedTarget) && setOpen(false)}
      onKeyDown={event => {
        if (event.key === 'Escape' && open) {
          event.stopPropagation();
          setOpen(false);
          host.current?.querySelector('button')?.focus();
        }
      }}
    >
      <button type="button" className="wb-Button" aria-expanded={open} onClick={() => setOpen(!open)}>
        {props.label}
      </button>
      {open && (
        <span className="wb-Menu-list" ref={list} role="group" aria-label={props.label} tabIndex={-1}>
          {grouped(props.choices).map(([group, choices]) => (
            <React.Fragment key={group}>
              {group && <span className="wb-Menu-group">{group}</span>}
              {choices.map(({ value: id, label, chosen }) => (
                <Tick key={id} label={label} value={chosen} onChange={value => props.onChange(id, value)} />
              ))}
            </React.Fragment>
          ))}
        </span>
      )}
    </span>
  );
}
