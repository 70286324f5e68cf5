/** The controls that views share. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { Mode } from './plot';

export function Choice(props: {
  label: string;
  value: string;
  options: readonly (readonly [string, string])[];
  onChange(value: string): void;
}): React.JSX.Element {
  return (
    <label className="wb-Control">
      {props.label}
      <select value={props.value} onChange={event => props.onChange(event.target.value)}>
        {props.options.map(([value, label]) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </select>
    </label>
  );
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

/** Boxes to tick, in a list that opens below its button and closes when the focus leaves it. */
export function Picker(props: {
  label: string;
  choices: readonly (readonly [id: string, label: string, chosen: boolean])[];
  onChange(id: string, chosen: boolean): void;
}): React.JSX.Element {
  const [open, setOpen] = React.useState(false);
  const host = React.useRef<HTMLSpanElement>(null);
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
        <span className="wb-Menu-list" role="group" aria-label={props.label} tabIndex={-1}>
          {props.choices.map(([id, label, chosen]) => (
            <Tick key={id} label={label} value={chosen} onChange={value => props.onChange(id, value)} />
          ))}
        </span>
      )}
    </span>
  );
}
