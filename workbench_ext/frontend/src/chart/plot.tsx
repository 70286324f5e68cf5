/** A picture with two axes that can be zoomed and panned. Law: it knows axes, pixels and trials; painting is passed in.
 *
 * Three canvases are stacked: axes, data, and marks that follow the pointer. Moving the pointer repaints only the last;
 * moving the axes shifts the painted data at once, and repaints it when the movement stops.
 */

import * as React from 'react';

import { IChartContext } from '../experiment/context';
import { useSize, useTurns } from '../hooks';
import { trialKey } from './keys';
import { cleared, IFrame, ITheme, paintAxes } from './paint';
import { Pointer } from './pointer';
import { IAxis, IScale, part, Range, scale } from './scale';
import { IHit, Tip } from './tip';

/** What dragging does. */
export type Mode = 'zoom' | 'select' | 'pan';

export interface IView {
  readonly x: Range;
  readonly y: Range;
}

export interface IBox {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

export interface IPicture {
  readonly x: IAxis;
  readonly y: IAxis;
  /** A value that changes when anything except the axes changes. */
  readonly data: unknown;
  paint(paper: CanvasRenderingContext2D, x: IScale, y: IScale): void;
  /** Highlight one trial among the others. */
  point(paper: CanvasRenderingContext2D, x: IScale, y: IScale, trial: number): void;
  nearest(left: number, top: number, x: IScale, y: IScale): number | null;
  /** The position of a trial's tip: near a pixel, or at the end of its curve. */
  hit(trial: number, x: IScale, y: IScale, left?: number): IHit | null;
  within(box: IBox, x: IScale, y: IScale): number[];
  /** Trials in the order in which the arrow keys go through them. */
  readonly order: readonly number[];
}

interface IProps {
  readonly context: IChartContext;
  readonly picture: IPicture;
  readonly theme: ITheme;
  readonly mode: Mode;
  /** A description of the picture for screen readers. */
  readonly summary: string;
  /** Called when the user changes the axes; null shows everything. */
  onView(view: IView | null): void;
  /** The picture's width in pixels, when it is known or changes. */
  onWidth?(width: number): void;
  /** For one of several small pictures. Their caller shows what is pointed at, because a tip would not fit. The axes
   * have no names, and neither wheel nor keys move them. */
  readonly small?: boolean;
  /** The place on x to which any of several pictures is pointed; each marks it. */
  readonly pointer?: Pointer;
}

const MARGIN = { left: 58, right: 14, top: 24, bottom: 40 };
const SMALL = { left: 58, right: 10, top: 8, bottom: 24 };
/** Maximum milliseconds of painting in each frame of a movement. */
const QUICK = 8;
/** Milliseconds without movement after which it counts as ended. */
const REST = 140;
/** Maximum pointer movement in pixels during a click. */
const STILL = 4;

export function Plot(props: IProps): React.JSX.Element {
  const { context, picture, theme, mode, summary, onWidth, pointer, small = false } = props;
  const margin = small ? SMALL : MARGIN;
  const { trans, selection } = context;
  const host = React.useRef<HTMLDivElement>(null);
  const { width, height } = useSize(host);
  const axes = React.useRef<HTMLCanvasElement>(null);
  const data = React.useRef<HTMLCanvasElement>(null);
  const over = React.useRef<HTMLCanvasElement>(null);
  const [hit, setHit] = React.useState<IHit | null>(null);
  const painted = React.useRef<IPainted | null>(null);
  const drag = React.useRef<IDrag | null>(null);

  const frame: IFrame = {
    left: margin.left,
    top: margin.top,
    width: Math.max(width - margin.left - margin.right, 1),
    height: Math.max(height - margin.top - margin.bottom, 1)
  };
  const shown = width > margin.left + margin.right + 40 && height > 90;
  const [x, y] = React.useMemo(
    () => [
      scale(picture.x, 0, frame.width, Math.max(frame.width / 90, 2)),
      scale(picture.y, frame.height, 0, Math.max(frame.height / 56, 2))
    ],
    [picture, frame.width, frame.height]
  );
  // Values for handlers outside of React's rendering.
  const now = React.useRef({ props, x, y, frame, shown });
  now.current = { props, x, y, frame, shown };

  React.useEffect(() => {
    if (shown) {
      onWidth?.(frame.width);
    }
    // eslint-disable-next-line react-hooks/exhaustive-deps -- callers give a new function at each rendering
  }, [shown, frame.width]);

  const paintOver = React.useCallback(() => {
    const { props, x, y, frame, shown } = now.current;
    if (!shown || !over.current) {
      return;
    }
    const paper = cleared(over.current, frame.width, frame.height);
    const at = props.pointer?.at ?? null;
    if (at !== null) {
      paper.fillStyle = props.theme.muted;
      paper.fillRect(Math.round(x.of(at)), 0, 1, frame.height);
    }
    const trial = props.context.selection.hovered;
    if (trial !== null) {
      props.picture.point(paper, x, y, trial);
    }
    const box = drag.current?.box;
    if (box) {
      paper.fillStyle = props.theme.brand;
      paper.strokeStyle = props.theme.brand;
      paper.globalAlpha = 0.12;
      paper.fillRect(box.left, box.top, box.right - box.left, box.bottom - box.top);
      paper.globalAlpha = 0.9;
      paper.strokeRect(box.left + 0.5, box.top + 0.5, box.right - box.left, box.bottom - box.top);
      paper.globalAlpha = 1;
    }
  }, []);

  React.useLayoutEffect(() => {
    if (!shown || !axes.current || !data.current) {
      return;
    }
    paintAxes(cleared(axes.current, width, height), frame, x, y, theme, !small);
    const last = painted.current;
    const moved =
      last !== null &&
      last.data === picture.data &&
      last.theme === theme &&
      last.width === frame.width &&
      last.height === frame.height;
    if (moved && last.cost > QUICK) {
      data.current.style.transform = transform(last, x, y);
      const rest = window.setTimeout(paint, REST);
      paintOver();
      return () => window.clearTimeout(rest);
    }
    paint();
    paintOver();
    return;

    function paint() {
      const begun = performance.now();
      picture.paint(cleared(data.current!, frame.width, frame.height), x, y);
      data.current!.style.transform = '';
      host.current!.dataset.painted = String(picture.order.length);
      painted.current = {
        data: picture.data,
        theme,
        width: frame.width,
        height: frame.height,
        x: picture.x.range,
        y: picture.y.range,
        cost: performance.now() - begun
      };
    }
    // eslint-disable-next-line react-hooks/exhaustive-deps -- `frame` is made of the size, `paintOver` of all of them
  }, [picture, theme, width, height, shown, x, y]);

  const told = useTurns(paintOver);
  React.useEffect(() => {
    const follow = () => {
      told();
      setHit(now => (now && now.trial !== selection.hovered ? null : now));
    };
    selection.changed.connect(follow);
    pointer?.changed.connect(told);
    return () => {
      selection.changed.disconnect(follow);
      pointer?.changed.disconnect(told);
    };
  }, [selection, told, pointer]);

  const look = (trial: number | null, left?: number) => {
    const { x, y, props } = now.current;
    selection.hover(trial);
    setHit(trial === null ? null : props.picture.hit(trial, x, y, left));
  };

  const placeOf = (event: { clientX: number; clientY: number }): [number, number] => {
    const area = over.current!.getBoundingClientRect();
    return [event.clientX - area.left, event.clientY - area.top];
  };

  const place = React.useRef<[number, number] | null>(null);
  const lookLater = useTurns(() => {
    const { x, y, props } = now.current;
    if (place.current !== null) {
      const [left, top] = place.current;
      look(props.picture.nearest(left, top, x, y), left);
      props.pointer?.move(x.at(left));
    }
  });

  const down = (event: React.PointerEvent) => {
    if (event.button !== 0 && event.button !== 1) {
      return;
    }
    over.current!.setPointerCapture(event.pointerId);
    const does = event.button === 1 ? 'pan' : event.shiftKey ? 'select' : mode;
    drag.current = { from: placeOf(event), does, axes: [picture.x, picture.y], box: null };
  };

  const move = (event: React.PointerEvent) => {
    const at = placeOf(event);
    const held = drag.current;
    if (!held) {
      place.current = at;
      lookLater();
      return;
    }
    const [wide, high] = [at[0] - held.from[0], at[1] - held.from[1]];
    if (!held.box && !held.panned && Math.hypot(wide, high) < STILL) {
      return;
    }
    if (held.does === 'pan') {
      held.panned = true;
      const { frame } = now.current;
      props.onView({
        x: part(held.axes[0], -wide / frame.width, 1 - wide / frame.width),
        y: part(held.axes[1], high / frame.height, 1 + high / frame.height)
      });
      return;
    }
    held.box = boxOf(held.from, at, now.current.frame, held.does);
    told();
  };

  const up = (event: React.PointerEvent) => {
    const held = drag.current;
    drag.current = null;
    if (!held) {
      return;
    }
    const { x, y } = now.current;
    const adding = event.ctrlKey || event.metaKey;
    if (held.box && held.does === 'zoom') {
      const { left, right, top, bottom } = held.box;
      props.onView({ x: [x.at(left), x.at(right)], y: [y.at(bottom), y.at(top)] });
    } else if (held.box) {
      const found = picture.within(held.box, x, y);
      selection.set(adding ? [...selection.trials, ...found] : found);
    } else if (!held.panned) {
      const trial = picture.nearest(...held.from, x, y);
      if (trial !== null && adding) {
        selection.toggle(trial);
      } else {
        selection.set(trial === null ? [] : [trial]);
      }
    }
    told();
  };

  // React's wheel listener is passive, and the page would scroll too.
  React.useEffect(() => {
    const canvas = over.current!;
    const turn = (event: WheelEvent) => {
      if (!now.current.shown || drag.current || now.current.props.small) {
        return;
      }
      event.preventDefault();
      const [left, top] = placeOf(event);
      const { props, frame } = now.current;
      const factor = Math.exp(Math.max(-0.5, Math.min(0.5, event.deltaY / 400)));
      const [h, v] = [left / frame.width, 1 - top / frame.height];
      const both = !event.altKey;
      props.onView({
        x: part(props.picture.x, h - h * factor, h + (1 - h) * factor),
        y: both ? part(props.picture.y, v - v * factor, v + (1 - v) * factor) : props.picture.y.range
      });
    };
    canvas.addEventListener('wheel', turn, { passive: false });
    return () => canvas.removeEventListener('wheel', turn);
  }, []);

  const key = (event: React.KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const shift = (h: number, v: number, zoom = 0) =>
      props.onView({
        x: part(picture.x, h + zoom, 1 + h - zoom),
        y: part(picture.y, v + zoom, 1 + v - zoom)
      });
    const does: Record<string, () => void> = {
      ArrowLeft: () => shift(-0.1, 0),
      ArrowRight: () => shift(0.1, 0),
      '+': () => shift(0, 0, 0.1),
      '-': () => shift(0, 0, -0.125),
      '0': () => props.onView(null)
    };
    const act = small ? undefined : does[event.key];
    act?.();
    if (act || trialKey(event.key, context, picture.order, look)) {
      event.preventDefault();
      event.stopPropagation();
    }
  };

  const menu = (event: React.MouseEvent) => {
    const trial = picture.nearest(...placeOf(event), x, y);
    if (trial !== null) {
      event.preventDefault();
      event.stopPropagation();
      context.openMenu(trial, event.clientX, event.clientY);
    }
  };

  return (
    <div
      className="wb-Plot"
      ref={host}
      data-mode={mode}
      tabIndex={0}
      role="application"
      aria-roledescription={trans.__('chart')}
      aria-label={summary}
      onKeyDown={key}
    >
      <canvas className="wb-Plot-axes" ref={axes} aria-hidden="true" />
      <div
        className="wb-Plot-area"
        style={{ left: frame.left, top: frame.top, width: frame.width, height: frame.height }}
      >
        <canvas className="wb-Plot-data" ref={data} aria-hidden="true" />
        <canvas
          className="wb-Plot-over"
          ref={over}
          aria-hidden="true"
          onPointerDown={down}
          onPointerMove={move}
          onPointerUp={up}
          onPointerCancel={() => (drag.current = null)}
          onPointerLeave={() => {
            place.current = null;
            pointer?.move(null);
            if (!drag.current) {
              look(null);
            }
          }}
          onDoubleClick={() => props.onView(null)}
          onContextMenu={menu}
        />
      </div>
      <Tip context={context} hit={hit} frame={frame} quiet={small} />
    </div>
  );
}

interface IPainted extends IView {
  readonly data: unknown;
  readonly theme: ITheme;
  readonly width: number;
  readonly height: number;
  /** Milliseconds that it took. */
  readonly cost: number;
}

interface IDrag {
  readonly from: readonly [number, number];
  readonly does: Mode;
  /** The axes as they were when it began. */
  readonly axes: readonly [IAxis, IAxis];
  box: IBox | null;
  panned?: boolean;
}

/** The painted data, shifted to the new axes. */
function transform(painted: IPainted, x: IScale, y: IScale): string {
  const [left, right] = [x.of(painted.x[0]), x.of(painted.x[1])];
  const [bottom, top] = [y.of(painted.y[0]), y.of(painted.y[1])];
  const [wide, high] = [(right - left) / painted.width, (bottom - top) / painted.height];
  return `matrix(${wide}, 0, 0, ${high}, ${left}, ${top})`;
}

/** A box between two pixels. One with almost no height (or width) selects a whole column (or row). */
function boxOf(a: readonly [number, number], b: readonly [number, number], frame: IFrame, does: Mode): IBox {
  const clamp = (value: number, most: number) => Math.min(Math.max(value, 0), most);
  const box = {
    left: clamp(Math.min(a[0], b[0]), frame.width),
    right: clamp(Math.max(a[0], b[0]), frame.width),
    top: clamp(Math.min(a[1], b[1]), frame.height),
    bottom: clamp(Math.max(a[1], b[1]), frame.height)
  };
  if (does === 'zoom' && box.bottom - box.top < 12) {
    return { ...box, top: 0, bottom: frame.height };
  }
  if (does === 'zoom' && box.right - box.left < 12) {
    return { ...box, left: 0, right: frame.width };
  }
  return box;
}
