/** One axis of the parallel coordinates, and the brush on it. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { IDimension } from '../chart/parallel';
import { shown } from '../numbers';

interface IProps {
  axis: IDimension;
  left: number;
  height: number;
  /** Pixels to the next axis. */
  room: number;
  last: boolean;
  /** Whether some trials have no value on it. */
  lacking: boolean;
  brush: readonly [number, number] | null;
  trans: TranslationBundle;
  onBrush(range: readonly [number, number] | null): void;
}

/** Pixels beside an axis where dragging brushes it. */
const REACH = 14;
/** Maximum pointer movement in pixels during a click. */
const STILL = 3;
/** The share of the axis by which a key moves an end of the brush. */
const STEP = 0.05;

export function ParallelAxis(props: IProps): React.JSX.Element {
  const { axis, left, height, room, last, brush, trans, onBrush } = props;
  const drag = React.useRef<{ from: number; held: readonly [number, number] | null } | null>(null);
  const group = React.useRef<SVGGElement>(null);
  const place = (event: React.PointerEvent) =>
    Math.min(Math.max(event.clientY - group.current!.getBoundingClientRect().top, 0), height);

  const down = (event: React.PointerEvent) => {
    (event.target as Element).setPointerCapture(event.pointerId);
    const from = place(event);
    const inside = brush !== null && from >= brush[0] && from <= brush[1];
    drag.current = { from, held: inside ? brush : null };
  };
  const move = (event: React.PointerEvent) => {
    const held = drag.current;
    if (!held) {
      return;
    }
    const at = place(event);
    if (Math.abs(at - held.from) < STILL) {
      return;
    }
    if (held.held) {
      const by = Math.min(Math.max(at - held.from, -held.held[0]), height - held.held[1]);
      onBrush([held.held[0] + by, held.held[1] + by]);
    } else {
      onBrush([Math.min(held.from, at), Math.max(held.from, at)]);
    }
  };
  const up = (event: React.PointerEvent) => {
    const held = drag.current;
    drag.current = null;
    if (held && Math.abs(place(event) - held.from) < STILL) {
      onBrush(null);
    }
  };
  const key = (event: React.KeyboardEvent) => {
    const [top, bottom] = brush ?? [0, height];
    const by = height * STEP;
    // Arrows move the brush's lower end, with Shift its upper one.
    const moves: Readonly<Record<string, () => readonly [number, number] | null>> = {
      ArrowUp: () => (event.shiftKey ? [Math.max(top - by, 0), bottom] : [top, Math.max(bottom - by, top + by)]),
      ArrowDown: () =>
        event.shiftKey ? [Math.min(top + by, bottom - by), bottom] : [top, Math.min(bottom + by, height)],
      Escape: () => null,
      Delete: () => null
    };
    const act = moves[event.key];
    if (act) {
      event.preventDefault();
      event.stopPropagation();
      onBrush(act());
    }
  };
  const says = brush ? trans.__('%1 to %2', said(axis, brush[1]), said(axis, brush[0])) : trans.__('not brushed');
  return (
    <g transform={`translate(${left}, 0)`}>
      <text className="wb-Axis-title" y={-24} textAnchor="middle">
        <title>{axis.label}</title>
        {cut(axis.label, room)}
      </text>
      <line className="wb-Axis-line" y1={0} y2={height} />
      {axis.scale.ticks
        .filter(({ label }) => label)
        .map(({ at, label }) => {
          const top = axis.scale.of(at);
          return top >= -1 && top <= height + 1 ? (
            <g key={label + at} transform={`translate(0, ${top})`}>
              <line className="wb-Axis-line" x1={last ? 0 : -4} x2={last ? 4 : 0} />
              <text className="wb-Axis-tick" x={last ? 8 : -8} dy="0.32em" textAnchor={last ? 'start' : 'end'}>
                {cut(label, room)}
              </text>
            </g>
          ) : null;
        })}
      {props.lacking && (
        <text
          className="wb-Axis-tick"
          y={height + 20}
          x={last ? 8 : -8}
          dy="0.32em"
          textAnchor={last ? 'start' : 'end'}
        >
          {trans.__('none')}
        </text>
      )}
      {brush && (
        <rect className="wb-Axis-brush" x={-7} width={14} y={brush[0]} height={Math.max(brush[1] - brush[0], 1)} />
      )}
      <g ref={group}>
        <rect
          className="wb-Axis-reach"
          x={-REACH}
          width={2 * REACH}
          y={0}
          height={height}
          tabIndex={0}
          role="slider"
          aria-orientation="vertical"
          aria-label={trans.__('Brush of %1', axis.label)}
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuetext={says}
          aria-valuenow={Math.round(100 * (1 - (brush?.[1] ?? height) / height))}
          onPointerDown={down}
          onPointerMove={move}
          onPointerUp={up}
          onPointerCancel={() => (drag.current = null)}
          onKeyDown={key}
        />
      </g>
    </g>
  );
}

function said({ scale }: IDimension, top: number): string {
  const value = scale.at(top);
  const { categories } = scale.axis;
  return categories ? (categories[Math.round(value)] ?? '') : shown(value);
}

function cut(text: string, room: number): string {
  const most = Math.max(Math.floor(room / 7) - 1, 4);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
