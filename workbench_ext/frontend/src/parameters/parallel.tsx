/** Every trial as a line through its hyperparameters to the goal. Brushing an axis selects trials in all views. */

import * as React from 'react';

import { LegendBar } from '../chart/legend';
import { cleared, IFrame } from '../chart/paint';
import { across, between, brushed, Brushes, dimensions, IDimension } from '../chart/parallel';
import { trialKey } from '../chart/keys';
import { IHit, Tip, trialFacts } from '../chart/tip';
import { useTheme } from '../chart/theme';
import { IContext } from '../experiment/context';
import { useKept, useSelected, useSignal, useSize, useTurns } from '../hooks';
import { useColouring, useMeasured, useMeasures, useParameters, useRanked } from './memory';
import { values } from './values';
import { openTrialMenu } from '../trial/menu';
import { Choice, Picker } from '../chart/controls';
import { ParallelAxis } from './axis';

const MARGIN = { left: 70, right: 70, top: 44, bottom: 40 };
/** Pixels between two axes, at least: beyond, the picture scrolls. */
const APART = 80;
/** Maximum distance in pixels at which the pointer selects a line. */
const NEAR = 20;

function toggled(names: readonly string[], name: string, has: boolean): string[] {
  return has ? [...names, name] : names.filter(other => other !== name);
}

export function ParallelView({ context }: { context: IContext }): React.JSX.Element {
  const { experiment, trans, state, selection } = context;
  const turn = useSignal(experiment.changed);
  const theme = useTheme(context);
  const selected = useSelected(selection);
  const { trials, goal } = experiment;
  const [by, setBy] = useKept(state, 'parallel.colour', 'value');
  const [hidden, setHidden] = useKept<string[]>(state, 'parallel.hidden', []);
  const [added, setAdded] = useKept<string[]>(state, 'parallel.added', []);
  const [brushes, setBrushes] = React.useState<Brushes>({});
  const ours = React.useRef<ReadonlySet<number> | null>(null);
  const host = React.useRef<HTMLDivElement>(null);
  const size = useSize(host);
  const data = React.useRef<HTMLCanvasElement>(null);
  const over = React.useRef<HTMLCanvasElement>(null);
  const [hit, setHit] = React.useState<IHit | null>(null);

  const known = useParameters(experiment);
  const measures = useMeasures(experiment, known, trans);
  const measured = useMeasured(experiment, added.length > 0);
  const more = React.useMemo(
    () => values({ parameters: [], goal: null, measures, measured }, trans),
    [measures, measured, trans]
  );
  const order = useRanked(experiment, turn);
  const height = Math.max(size.height - MARGIN.top - MARGIN.bottom - 16, 80);
  const axes = React.useMemo(
    () =>
      dimensions(
        known.filter(({ name }) => !hidden.includes(name)),
        goal,
        order,
        height,
        more.filter(({ id }) => added.includes(id))
      ),
    // eslint-disable-next-line react-hooks/exhaustive-deps -- each answer brings a goal of its own: `order` says when it counts
    [known, hidden, more, added, order, height]
  );
  const width = Math.max(size.width - MARGIN.left - MARGIN.right, (axes.length - 1) * APART);
  const lefts = axes.map((_, k) => (axes.length > 1 ? (k * width) / (axes.length - 1) : width / 2));
  const frame: IFrame = { left: MARGIN.left, top: MARGIN.top, width, height: height + 26 };
  const colours = useColouring(by, experiment, known, order, theme.dark, trans);
  const lines = React.useMemo(
    () => new Map(order.map(trial => [trial.number, axes.map(axis => axis.of(trial))])),
    [order, axes]
  );
  const shown = size.width > 0 && size.height > 0;

  // Another view changed the selection: the brushes here no longer match it.
  React.useEffect(() => {
    if (ours.current !== null && ours.current !== selected) {
      ours.current = null;
      setBrushes({});
    }
  }, [selected]);

  const brush = (next: Brushes) => {
    setBrushes(next);
    selection.set(Object.keys(next).length === 0 ? [] : brushed(order, axes, next));
    ours.current = selection.trials;
  };

  React.useLayoutEffect(() => {
    if (!shown) {
      return;
    }
    const paper = cleared(data.current!, frame.width, frame.height);
    const stroke = (trial: number, thick: number, alpha: number, colour: string) => {
      paper.globalAlpha = alpha;
      paper.lineWidth = thick;
      paper.strokeStyle = colour;
      paper.beginPath();
      across(paper, lines.get(trial)!, lefts);
      paper.stroke();
    };
    const choosing = selected.size > 0;
    const crowd = order.length > 300;
    // The best last, so that they lie on top.
    for (const { number } of [...order].reverse()) {
      if (!choosing) {
        stroke(number, crowd ? 1 : 1.4, crowd ? 0.45 : 0.75, colours.of(number));
      } else if (!selected.has(number)) {
        stroke(number, 1, crowd ? 0.06 : 0.12, theme.muted);
      }
    }
    for (const { number } of [...order].reverse()) {
      if (selected.has(number)) {
        stroke(number, selected.size > 100 ? 1.2 : 1.9, 0.9, colours.of(number));
      }
    }
    paper.globalAlpha = 1;
    // eslint-disable-next-line react-hooks/exhaustive-deps -- `order` and `lefts` are those of `lines` and the width
  }, [lines, colours, selected, theme, frame.width, frame.height, shown]);

  const pointOut = useTurns(() => {
    if (!shown || !over.current) {
      return;
    }
    const paper = cleared(over.current, frame.width, frame.height);
    const tops = selection.hovered === null ? undefined : lines.get(selection.hovered);
    if (tops) {
      for (const [thick, colour] of [
        [6, theme.page],
        [3, colours.of(selection.hovered!)]
      ] as const) {
        paper.lineWidth = thick;
        paper.strokeStyle = colour;
        paper.beginPath();
        across(paper, tops, lefts);
        paper.stroke();
      }
    }
  });
  React.useEffect(pointOut);
  React.useEffect(() => {
    const follow = () => {
      pointOut();
      setHit(now => (now && now.trial !== selection.hovered ? null : now));
    };
    selection.changed.connect(follow);
    return () => {
      selection.changed.disconnect(follow);
    };
  }, [selection, pointOut]);

  const look = (number: number | null, place?: readonly [number, number]) => {
    selection.hover(number);
    const trial = number === null ? undefined : trials.get(number);
    const end = trial && lines.get(trial.number);
    setHit(
      trial && end
        ? {
            trial: trial.number,
            left: place?.[0] ?? lefts[lefts.length - 1]!,
            top: place?.[1] ?? end[end.length - 1]!,
            facts: trialFacts(trial, context)
          }
        : null
    );
  };
  const nearest = (left: number, top: number): number | null => {
    const place = between(left, lefts);
    let found: number | null = null;
    let least = NEAR;
    for (const { number } of place ? [...order].reverse() : []) {
      const tops = lines.get(number)!;
      const away =
        Math.abs(tops[place!.at]! * place!.before + tops[place!.at + 1]! * place!.after - top) *
        (selected.has(number) ? 0.5 : 1);
      if (away <= least) {
        least = away;
        found = number;
      }
    }
    return found;
  };
  const pointer = React.useRef<[number, number]>([0, 0]);
  const lookLater = useTurns(() => look(nearest(...pointer.current), pointer.current));
  const placeOf = (event: React.MouseEvent): [number, number] => {
    const area = over.current!.getBoundingClientRect();
    return [event.clientX - area.left, event.clientY - area.top];
  };
  const click = (event: React.MouseEvent) => {
    const trial = nearest(...placeOf(event));
    if (trial !== null && (event.ctrlKey || event.metaKey)) {
      selection.toggle(trial);
    } else {
      selection.set(trial === null ? [] : [trial]);
    }
  };
  const summary =
    trans._n(
      '%1 trial across %2 axes: %3.',
      '%1 trials across %2 axes: %3.',
      order.length,
      axes.length,
      axes.map(({ label }) => label).join(', ')
    ) +
    ' ' +
    trans.__(
      'Up and down go through the trials from the best, Enter opens one, Space selects it; the table lists and filters them.'
    );
  return (
    <div className="wb-View wb-Parallel">
      <div className="wb-Controls" role="toolbar" aria-label={trans.__('How the axes are shown')}>
        <Choice
          label={trans.__('Colour')}
          value={by}
          onChange={setBy}
          options={[
            ['value', goal?.metric ?? trans.__('value')],
            ['state', trans.__('state')],
            ...known.map(({ name }) => [`p:${name}`, name] as [string, string])
          ]}
        />
        <LegendBar legend={colours.legend} />
        <span className="wb-Controls-gap" />
        <span className="wb-Count" role="status">
          {selected.size > 0
            ? trans.__('%1 of %2 selected', selected.size, trials.size)
            : trans.__('Drag along an axis to select')}
        </span>
        {selected.size > 0 && (
          <button type="button" className="wb-Button" onClick={() => brush({})}>
            {trans.__('Clear')}
          </button>
        )}
        <Picker
          label={trans.__('Axes')}
          choices={[
            ...known.map(({ name }) => ({
              value: `p:${name}`,
              label: name,
              group: trans.__('Hyperparameters'),
              chosen: !hidden.includes(name)
            })),
            ...more.map(({ id, label, group }) => ({ value: id, label, group, chosen: added.includes(id) }))
          ]}
          onChange={(id, shown) => {
            setBrushes({});
            if (id.startsWith('p:')) {
              setHidden(toggled(hidden, id.slice(2), !shown));
            } else {
              setAdded(toggled(added, id, shown));
            }
          }}
        />
      </div>
      <div
        className="wb-Plot wb-Parallel-plot"
        ref={host}
        tabIndex={0}
        role="application"
        aria-roledescription={trans.__('chart')}
        aria-label={summary}
        onKeyDown={event => {
          if (
            event.target === event.currentTarget &&
            trialKey(
              event.key,
              context,
              order.map(({ number }) => number),
              look
            )
          ) {
            event.preventDefault();
            event.stopPropagation();
          }
        }}
      >
        <div className="wb-Parallel-sheet" style={{ width: width + MARGIN.left + MARGIN.right }}>
          <div className="wb-Plot-area" style={frame}>
            <canvas className="wb-Plot-data" ref={data} aria-hidden="true" />
            <canvas
              className="wb-Plot-over"
              ref={over}
              aria-hidden="true"
              onClick={click}
              onPointerMove={event => {
                pointer.current = placeOf(event);
                lookLater();
              }}
              onPointerLeave={() => look(null)}
              onContextMenu={event => {
                const trial = nearest(...placeOf(event));
                if (trial !== null) {
                  event.preventDefault();
                  event.stopPropagation();
                  openTrialMenu(context, trial, event.clientX, event.clientY);
                }
              }}
            />
          </div>
          <svg className="wb-Parallel-axes" width={width + MARGIN.left + MARGIN.right} height={height + 100}>
            <g transform={`translate(${MARGIN.left}, ${MARGIN.top})`}>
              {axes.map((axis: IDimension, k) => (
                <ParallelAxis
                  key={axis.id}
                  axis={axis}
                  left={lefts[k]!}
                  height={height}
                  trans={trans}
                  room={axes.length > 1 ? width / (axes.length - 1) : width}
                  last={k === axes.length - 1}
                  lacking={order.some(trial => axis.lacks(trial))}
                  brush={brushes[axis.id] ?? null}
                  onBrush={range => {
                    const { [axis.id]: _gone, ...others } = brushes;
                    brush(range ? { ...others, [axis.id]: range } : others);
                  }}
                />
              ))}
            </g>
          </svg>
          <Tip context={context} hit={hit} frame={frame} />
        </div>
      </div>
      {order.length === 0 && !experiment.row?.trials.begun && (
        <p className="wb-Note wb-Over">{trans.__('No trial has begun yet.')}</p>
      )}
    </div>
  );
}
