/** Which slot trained which trial, and when: legs as bars, with their ends and retries. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { cleared, theme } from '../chart/paint';
import { IContext } from '../experiment/context';
import { legsOf } from '../experiment/follow';
import { useSignal, useSize } from '../hooks';
import { configured } from '../ladder/words';
import { SIGNS, barColour, paintTimeline, timeAt, xOf } from './draw';
import { IBar, ITimes, Incident, ROOM, Span, barAt, beside, rowHeight, times, use, zoomed } from './layout';
import { openTrialMenu } from '../trial/menu';
import { lasting } from '../words';

/** Milliseconds between two pictures while something trains. */
const TURN = 250;

export function TimelineView({ context }: { context: IContext }): React.JSX.Element {
  const legs = legsOf(context.experiment);
  useSignal(legs.changed);
  const found = React.useMemo(() => times(legs.legs, legs.slots), [legs.legs, legs.slots]);
  if (found.bars.length > 0) {
    return <Timeline context={context} found={found} />;
  }
  return (
    <p className="wb-Note" role="status">
      {legs.error ? legs.error.message : context.trans.__('No trial has begun in a slot yet.')}
    </p>
  );
}

function Timeline({ context, found }: { context: IContext; found: ITimes }): React.JSX.Element {
  const { experiment, selection, trans } = context;
  useSignal(selection.changed);
  useSignal(experiment.changed);
  const themed = useSignal(context.themeChanged);
  const scroll = React.useRef<HTMLDivElement>(null);
  const canvas = React.useRef<HTMLCanvasElement>(null);
  const drag = React.useRef<{ x: number; span: Span; moved: boolean } | null>(null);
  const size = useSize(scroll);
  const [width, height] = [Math.floor(size.width), Math.floor(size.height)];
  const [chosen, setChosen] = React.useState<Span | null>(null);
  const [pointed, setPointed] = React.useState<{ bar: IBar; byKey: boolean } | null>(null);
  const now = useNow(found.training);
  const whole = wholeOf(found, now);
  const span = chosen ?? whole;
  const high = rowHeight(found.rows.length, height);
  const lit = new Set(selection.trials);
  if (selection.hovered !== null) {
    lit.add(selection.hovered);
  }
  // A bar that grew is another one.
  const bar = pointed && same(found, pointed.bar);
  const paint = () => {
    if (canvas.current && width > 0) {
      paintTimeline(cleared(canvas.current, width, height), {
        times: found,
        span,
        now,
        theme: theme(),
        width,
        height,
        rowHeight: high,
        scroll: scroll.current?.scrollTop ?? 0,
        lit,
        focus: pointed?.byKey ? bar : null,
        slot: row => {
          const { slot, part } = found.places[row]!;
          return part === null ? trans.__('slot %1', slot + 1) : trans.__('slot %1.%2', slot + 1, part + 1);
        }
      });
    }
  };
  React.useEffect(() => {
    const frame = requestAnimationFrame(paint);
    return () => cancelAnimationFrame(frame);
  });
  // eslint-disable-next-line react-hooks/exhaustive-deps -- all else is painted in the next frame, above; a theme at once
  React.useEffect(paint, [themed]);
  React.useEffect(() => () => selection.hover(null), [selection]);

  const place = (event: { clientX: number; clientY: number }): [number, number] => {
    const box = scroll.current!.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top + scroll.current!.scrollTop];
  };
  const at = (event: React.MouseEvent): IBar | null => {
    const [x, y] = place(event);
    const row = found.rows[Math.floor((y - ROOM.top) / high)];
    const slack = ((span[1] - span[0]) / Math.max(width, 1)) * 5;
    return row ? barAt(row, timeAt({ span, width }, x), slack, now) : null;
  };
  const look = (next: IBar | null, byKey: boolean) => {
    setPointed(next && { bar: next, byKey });
    selection.hover(next?.leg.trial ?? null);
  };
  const zoom = (by: number, around = (span[0] + span[1]) / 2) => {
    setChosen(zoomed(span, around, by, whole));
  };
  React.useEffect(() => {
    // React's own listener is passive: the page would scroll, too.
    const wheel = (event: WheelEvent) => {
      const element = scroll.current!;
      const overflows = element.scrollHeight > element.clientHeight + 1;
      if (event.ctrlKey || event.metaKey || !overflows) {
        event.preventDefault();
        zoom(Math.exp(event.deltaY * 0.0015), timeAt({ span, width }, place(event)[0]));
      }
    };
    const element = scroll.current;
    element?.addEventListener('wheel', wheel, { passive: false });
    return () => element?.removeEventListener('wheel', wheel);
  });
  const move = (event: React.PointerEvent) => {
    const from = drag.current;
    if (!from) {
      look(at(event), false);
      return;
    }
    const [x] = place(event);
    if (Math.abs(x - from.x) > 3 || from.moved) {
      from.moved = true;
      const shift = timeAt({ span: from.span, width }, from.x) - timeAt({ span: from.span, width }, x);
      setChosen([from.span[0] + shift, from.span[1] + shift]);
    }
  };
  const up = (event: React.PointerEvent) => {
    const moved = drag.current?.moved ?? false;
    drag.current = null;
    const hit = at(event);
    if (moved) {
      return;
    }
    if (!hit) {
      selection.clear();
    } else if (event.ctrlKey || event.metaKey || event.shiftKey) {
      selection.toggle(hit.leg.trial);
    } else {
      selection.set([hit.leg.trial]);
    }
  };
  const key = (event: React.KeyboardEvent) => {
    const wide = span[1] - span[0];
    const does: Record<string, () => void> = {
      '+': () => zoom(0.7),
      '-': () => zoom(1 / 0.7),
      '0': () => setChosen(null),
      PageUp: () => setChosen([span[0] - wide / 2, span[1] - wide / 2]),
      PageDown: () => setChosen([span[0] + wide / 2, span[1] + wide / 2]),
      Escape: () => (bar ? look(null, true) : selection.clear()),
      ' ': () => bar && selection.toggle(bar.leg.trial),
      Enter: () => bar && context.openTrial(bar.leg.trial)
    };
    for (const arrow of ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home', 'End']) {
      does[arrow] = () => {
        const next = bar ? beside(found, bar, arrow) : found.bars[0];
        if (next) {
          look(next, true);
          if (next.from < span[0] || next.from > span[1]) {
            setChosen([next.from - wide / 2, next.from + wide / 2]);
          }
        }
      };
    }
    const act = does[event.key];
    if (act && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      event.stopPropagation();
      act();
    }
  };
  const story = bar && told(context, bar, now);
  return (
    <div className="wb-Timeline">
      <Bar found={found} span={span} now={now} trans={trans} zoom={zoom} fit={chosen && (() => setChosen(null))} />
      <div
        className="wb-Timeline-scroll"
        ref={scroll}
        tabIndex={0}
        role="application"
        aria-roledescription={trans.__('timeline')}
        aria-label={trans.__(
          '%1 legs in %2 slots. Arrow keys move between legs, plus and minus zoom, Enter opens the trial.',
          found.bars.length,
          found.slots.length
        )}
        onKeyDown={key}
        onScroll={paint}
        onPointerDown={event => {
          if (event.button === 0) {
            drag.current = { x: place(event)[0], span, moved: false };
            event.currentTarget.setPointerCapture(event.pointerId);
          }
        }}
        onPointerMove={move}
        onPointerUp={event => drag.current && up(event)}
        onPointerCancel={() => (drag.current = null)}
        onPointerLeave={() => look(null, false)}
        onBlur={() => pointed?.byKey && look(null, false)}
        onDoubleClick={event => {
          const hit = at(event);
          if (hit) {
            context.openTrial(hit.leg.trial);
          }
        }}
        onContextMenu={event => {
          const hit = at(event);
          if (hit) {
            event.preventDefault();
            event.stopPropagation();
            openTrialMenu(context, hit.leg.trial, event.clientX, event.clientY);
          }
        }}
      >
        <div style={{ height: ROOM.top + ROOM.bottom + high * found.rows.length }}>
          <div className="wb-Timeline-window" style={{ width, height }}>
            <canvas ref={canvas} aria-hidden="true" />
            {story && bar && (
              <div className="wb-Card" style={cardPlace(bar)} aria-hidden="true">
                <div className="wb-Card-title">{story.title}</div>
                {story.facts.map(fact => (
                  <div key={fact} className={fact === story.reason ? '' : 'wb-Card-more'}>
                    {fact}
                  </div>
                ))}
              </div>
            )}
          </div>
        </div>
      </div>
      <div className="wb-visually-hidden" role="status">
        {story && pointed?.byKey && [story.title, ...story.facts].join('. ')}
      </div>
    </div>
  );

  function cardPlace({ from, to, row }: IBar): React.CSSProperties {
    const [left, right] = [xOf({ span, width }, from), xOf({ span, width }, to ?? now)];
    const x = Math.max(ROOM.left, Math.min((left + right) / 2, width));
    const top = ROOM.top + row * high - (scroll.current?.scrollTop ?? 0);
    return {
      ...(x > width * 0.6 ? { right: Math.max(width - x - 30, 8) } : { left: Math.max(x - 30, 8) }),
      ...(top > height * 0.55 ? { bottom: height - top + 6 } : { top: top + high + 6 })
    };
  }
}

/** The meaning of bars and signs, the slots' utilisation, and buttons to zoom. */
function Bar(props: {
  found: ITimes;
  span: Span;
  now: number;
  trans: TranslationBundle;
  zoom: (by: number) => void;
  fit: (() => void) | null;
}): React.JSX.Element {
  const { found, span, now, trans, zoom, fit } = props;
  const outcomes: [string | null, string][] = [
    [null, trans.__('training')],
    ['reached', trans.__('reached its level')],
    ['completed', trans.__('completed')],
    ['stopped', trans.__('stopped')],
    ['failed', trans.__('failed')],
    ['died', trans.__('lost')]
  ];
  const signs: [Incident, string][] = [
    ['retried', trans.__('retried')],
    ['moved', trans.__('moved to another slot')]
  ];
  const share = use(found, [Math.max(span[0], found.first), Math.min(span[1], now)], now);
  return (
    <div className="wb-Timeline-bar">
      <ul className="wb-Ladder-marks" aria-label={trans.__('Marks')}>
        {outcomes
          .filter(([outcome]) =>
            found.bars.some(({ leg }) => leg.outcome === outcome || (outcome === null && leg.left_s === null))
          )
          .map(([outcome, label]) => (
            <li key={label}>
              <span className="wb-Timeline-mark" style={{ background: barColour(outcome) }} aria-hidden="true">
                {outcome && outcome in SIGNS ? SIGNS[outcome as Incident] : ''}
              </span>
              {label}
            </li>
          ))}
        {signs
          .filter(([sign]) => found.bars.some(({ begin }) => begin === sign))
          .map(([sign, label]) => (
            <li key={sign}>
              <span aria-hidden="true">{SIGNS[sign]}</span>
              {label}
            </li>
          ))}
      </ul>
      {share !== null && (
        <span className="wb-Timeline-use">
          {trans._n('%1 slot', '%1 slots', found.slots.length, found.slots.length)}
          {' · '}
          {trans.__('%1 % of their time in use', Math.round(share * 100))}
        </span>
      )}
      <span className="wb-Timeline-zoom">
        <button
          type="button"
          className="wb-Button"
          title={trans.__('Zoom in')}
          aria-label={trans.__('Zoom in')}
          onClick={() => zoom(0.6)}
        >
          +
        </button>
        <button
          type="button"
          className="wb-Button"
          title={trans.__('Zoom out')}
          aria-label={trans.__('Zoom out')}
          onClick={() => zoom(1 / 0.6)}
        >
          −
        </button>
        <button type="button" className="wb-Button" disabled={!fit} onClick={() => fit?.()}>
          {trans.__('All')}
        </button>
      </span>
    </div>
  );
}

interface ITold {
  readonly title: string;
  readonly reason: string;
  readonly facts: readonly string[];
}

/** A leg in words. */
function told({ experiment, trans }: IContext, { leg, from, to, begin }: IBar, now: number): ITold {
  const seconds = (to ?? now) - from;
  const time = seconds < 10 ? trans.__('%1 s', seconds.toPrecision(2)) : lasting(seconds, trans);
  const ends: Record<string, string> = {
    reached: trans.__('%1 reached step %2', leg.label, leg.until),
    completed: trans.__('%1 completed', leg.label),
    stopped: trans.__('%1 was stopped', leg.label),
    failed: trans.__('%1 failed', leg.label),
    died: trans.__('%1 was lost', leg.label)
  };
  const title =
    leg.outcome === null
      ? trans.__('%1 trains to step %2', leg.label, leg.until)
      : (ends[leg.outcome] ?? `${leg.label}: ${leg.outcome}`);
  const where = leg.worker ?? String(leg.slot);
  const facts = [
    leg.reason ?? '',
    begin === 'moved'
      ? trans.__('It continued here from another slot, from step %1.', leg.start)
      : begin === 'retried'
        ? trans.__('It was retried from step %1.', leg.start)
        : '',
    configured(experiment.trials.get(leg.trial)?.configuration ?? {}),
    trans.__('attempt %1 from step %2, %3 on %4', leg.attempt, leg.start, time, where)
  ];
  return { title, reason: leg.reason ?? '', facts: facts.filter(Boolean) };
}

function same({ rows }: ITimes, bar: IBar): IBar | null {
  const { trial, attempt } = bar.leg;
  return rows[bar.row]?.find(({ leg }) => leg.trial === trial && leg.attempt === attempt) ?? null;
}

/** From the first leg to the last, or to now. */
function wholeOf({ first, last, training }: ITimes, now: number): Span {
  const to = training ? Math.max(now, last) : last;
  const room = Math.max(to - first, 0.1) * 0.015;
  return [first - room, to + room];
}

/** Seconds since 1970, updated while something trains. */
function useNow(training: boolean): number {
  const [now, setNow] = React.useState(() => Date.now() / 1000);
  React.useEffect(() => {
    if (!training) {
      return;
    }
    const timer = setInterval(() => !document.hidden && setNow(Date.now() / 1000), TURN);
    return () => clearInterval(timer);
  }, [training]);
  return now;
}
