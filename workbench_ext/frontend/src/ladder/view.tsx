/** The search at a glance: brackets, rungs, which trials were promoted or stopped and why, and which train now. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { IContext } from '../experiment/context';
import { ladderOf, legsOf } from '../experiment/follow';
import { useSignal, useSize } from '../hooks';
import { ILadder, honest } from './data';
import { valueEnds } from './draw';
import { IWords } from './head';
import { EDGE, ILayout, INode, layout, nearest, step } from './layout';
import { LadderStage } from './stage';
import { IStory, story } from './words';
import { openTrialMenu } from '../trial/menu';
import { shown } from '../numbers';
import { LadderLegend } from './legend';

/** The minimum height of the picture; below it, the page scrolls. */
const LEAST = 240;

export function LadderView({ context }: { context: IContext }): React.JSX.Element {
  const model = ladderOf(context.experiment);
  useSignal(model.changed);
  if (model.ladder) {
    return <Picture context={context} ladder={model.ladder} />;
  }
  return (
    <p className="wb-Note" role="status">
      {model.error ? model.error.message : context.trans.__('Reading the journal …')}
    </p>
  );
}

function Picture(props: { context: IContext; ladder: ILadder }): React.JSX.Element {
  const { context } = props;
  const { experiment, selection, trans } = context;
  const legs = legsOf(experiment);
  useSignal(legs.changed);
  const ladder = honest(props.ladder, trial => RUNNING.has(experiment.trials.get(trial)?.state ?? ''));
  useSignal(experiment.changed);
  useSignal(selection.changed);
  const scroll = React.useRef<HTMLDivElement>(null);
  const size = useSize(scroll);
  const [width, height] = [Math.floor(size.width), Math.max(Math.floor(size.height), LEAST)];
  const picture = React.useMemo(() => (width > 0 ? layout(ladder, width, height) : null), [ladder, width, height]);
  const [pointed, setPointed] = React.useState<string | null>(null);
  const [isByKey, setByKey] = React.useState(false);
  const stage = useStage(context, scroll, picture, ladder, width, Math.floor(size.height));

  // A mark is identified by its key: the picture is rebuilt at each change.
  const node = pointed && picture ? byKey(picture, pointed) : null;
  const look = (next: INode | null, byKeys: boolean) => {
    setPointed(next?.key ?? null);
    setByKey(byKeys);
    selection.hover(next?.entry.trial ?? null);
  };
  const lit = [...selection.trials].filter(trial => trial !== selection.hovered);
  if (selection.hovered !== null) {
    lit.push(selection.hovered);
  }
  React.useEffect(() => {
    stage.current?.point(lit, isByKey ? node : null);
    // eslint-disable-next-line react-hooks/exhaustive-deps -- `lit` is a new list at each rendering: what is in it counts
  }, [lit.join(), isByKey, node, picture]);
  React.useEffect(() => () => selection.hover(null), [selection]);

  const found = (event: React.MouseEvent): INode | null => {
    const box = scroll.current!.getBoundingClientRect();
    const { scrollLeft, scrollTop } = scroll.current!;
    const [x, y] = [event.clientX - box.left + scrollLeft, event.clientY - box.top + scrollTop];
    return picture && nearest(picture, x, y);
  };
  const pick = (trial: number, more: boolean) => {
    if (more) {
      selection.toggle(trial);
    } else {
      selection.set(selection.trials.size === 1 && selection.trials.has(trial) ? [] : [trial]);
    }
  };
  const click = (event: React.MouseEvent) => {
    const at = found(event);
    const more = event.ctrlKey || event.metaKey || event.shiftKey;
    if (at) {
      pick(at.entry.trial, more);
    } else if (!more) {
      selection.clear();
    }
  };
  const key = (event: React.KeyboardEvent) => {
    if (!picture || event.altKey || event.ctrlKey || event.metaKey) {
      return;
    }
    const trial = node?.entry.trial;
    if (event.key === 'Escape') {
      if (node) {
        look(null, true);
      } else {
        selection.clear();
      }
    } else if (event.key === 'Enter' && trial !== undefined) {
      context.openTrial(trial);
    } else if (event.key === ' ' && trial !== undefined) {
      selection.toggle(trial);
    } else {
      const next = node ? step(picture, node, event.key) : begin(picture, event.key);
      if (!next && !MOVES.has(event.key)) {
        return;
      }
      if (next) {
        look(next, true);
        reveal(scroll.current!, next);
      }
    }
    event.preventDefault();
    event.stopPropagation();
  };

  const told = node && story(node, ladder, experiment.trials, legs, trans);
  const dims = selection.hovered !== null || selection.trials.size > 0;
  return (
    <div className="wb-Ladder">
      <LadderLegend context={context} ladder={ladder} ends={valueEnds(ladder)} />
      <div
        className="wb-Ladder-scroll"
        ref={scroll}
        tabIndex={0}
        role="application"
        aria-roledescription={trans.__('ladder of rungs')}
        aria-label={summary(ladder, trans)}
        onKeyDown={key}
        onScroll={({ currentTarget }) => stage.current?.scrolled(currentTarget.scrollLeft, currentTarget.scrollTop)}
        onMouseMove={event => look(found(event), false)}
        onMouseLeave={() => look(null, false)}
        onBlur={() => isByKey && look(null, false)}
        onClick={click}
        onDoubleClick={event => {
          const at = found(event);
          if (at) {
            context.openTrial(at.entry.trial);
          }
        }}
        onContextMenu={event => {
          const at = found(event);
          if (at) {
            event.preventDefault();
            event.stopPropagation();
            openTrialMenu(context, at.entry.trial, event.clientX, event.clientY);
          }
        }}
      >
        <div
          className="wb-Ladder-space"
          style={{ width: Math.max(picture?.width ?? 0, width), height: picture?.height ?? 0 }}
        >
          <div className="wb-Ladder-window" style={{ width, height: Math.floor(size.height) }}>
            <canvas className="wb-Ladder-base" data-dim={dims} aria-hidden="true" />
            <canvas className="wb-Ladder-over" aria-hidden="true" />
            {told && node && (
              <Card
                story={told}
                box={boxOf(node, picture!, scroll.current)}
                width={width}
                height={Math.floor(size.height)}
              />
            )}
          </div>
        </div>
      </div>
      <div className="wb-visually-hidden" role="status">
        {told && isByKey && [told.title, told.where, told.reason, told.configuration].join('. ')}
      </div>
    </div>
  );
}

/** States of a trial whose leg is in a slot. */
const RUNNING: ReadonlySet<string> = new Set(['setting up', 'running', 'stopping']);

const MOVES: ReadonlySet<string> = new Set([
  ...['ArrowUp', 'ArrowDown', 'ArrowLeft', 'ArrowRight'],
  ...['Home', 'End', 'PageUp', 'PageDown']
]);

interface IBox {
  readonly x: number;
  readonly top: number;
  readonly bottom: number;
}

/** The visible position of a mark, and the vertical range of its trial's line, which no card should cover. */
function boxOf({ x, y, entry }: INode, { trials }: ILayout, scroll: HTMLElement | null): IBox {
  const [left, above] = [scroll?.scrollLeft ?? 0, scroll?.scrollTop ?? 0];
  const heights = (trials.get(entry.trial) ?? []).map(node => node.y);
  const [least, most] = [Math.min(...heights), Math.max(...heights)];
  // A line across half of the picture cannot be avoided.
  const spared = most - least < (scroll?.clientHeight ?? 0) / 3;
  return { x: x - left, top: (spared ? least : y) - above, bottom: (spared ? most : y) - above };
}

/** What happened to a trial at a rung, below its line or above it. */
function Card(props: { story: IStory; box: IBox; width: number; height: number }): React.JSX.Element {
  const { story, box, width, height } = props;
  const side = box.x > width * 0.66 ? { right: Math.max(width - box.x - 24, 8) } : { left: Math.max(box.x - 24, 8) };
  const edge = box.bottom > height * 0.6 ? { bottom: height - box.top + 16 } : { top: box.bottom + 16 };
  return (
    <div className="wb-Card" style={{ ...side, ...edge }} aria-hidden="true">
      <div className="wb-Card-title">{story.title}</div>
      {story.reason && <div>{story.reason}</div>}
      {story.configuration && <div className="wb-Card-more">{story.configuration}</div>}
      {story.leg && <div className="wb-Card-more">{story.leg}</div>}
    </div>
  );
}

/** The stage of this view's canvases, kept in step with what is shown. */
function useStage(
  context: IContext,
  scroll: React.RefObject<HTMLDivElement>,
  picture: ILayout | null,
  ladder: ILadder,
  width: number,
  height: number
): React.RefObject<LadderStage> {
  const { experiment, themeChanged, trans } = context;
  const stage = React.useRef<LadderStage | null>(null);
  React.useEffect(() => {
    const [base, over] = scroll.current?.querySelectorAll('canvas') ?? [];
    if (!base || !over) {
      return;
    }
    const made = new LadderStage(base, over, words(context, trans), ({ entry, ...node }) => {
      const done = experiment.trials.get(entry.trial)?.step ?? 0;
      const until = picked(node.key);
      return until > entry.from ? (done - entry.from) / (until - entry.from) : 0;
    });
    stage.current = made;
    const restyle = () => made.restyle();
    themeChanged.connect(restyle);
    const trained = () => made.paint();
    experiment.changed.connect(trained);
    return () => {
      themeChanged.disconnect(restyle);
      experiment.changed.disconnect(trained);
      made.dispose();
      stage.current = null;
    };
    // eslint-disable-next-line react-hooks/exhaustive-deps -- the stage lives as long as its canvases; a page stays with its experiment
  }, []);
  React.useEffect(() => {
    if (picture) {
      stage.current?.show(ladder, picture, width, height);
    }
    // eslint-disable-next-line react-hooks/exhaustive-deps -- a picture is made of its ladder
  }, [picture, width, height]);
  return stage;
}

/** The step of the rung that a node's key names. */
function picked(key: string): number {
  return Number(key.split(':')[1]);
}

function words(context: IContext, trans: TranslationBundle): IWords {
  const sign = () => (context.experiment.goal?.mode === 'min' ? '≤' : '≥');
  const ladder = () => ladderOf(context.experiment).ladder;
  const rounds = () => (ladder()?.brackets ?? []).some(({ turn }) => turn > 0);
  const isHalving = () => ['hyperband', 'asha'].includes(ladder()?.scheduler ?? '');
  return {
    bracket: ({ bracket, left }) =>
      !isHalving()
        ? trans.__('All trials')
        : rounds() && left === EDGE.left
          ? trans.__('Round %1 · bracket %2', bracket.turn + 1, bracket.bracket)
          : trans.__('Bracket %1', bracket.bracket),
    trials: ({ columns }) => {
      const first = columns[0]?.rung;
      const many = Math.max(first?.places ?? 0, first?.entries.length ?? 0);
      return trans._n('%1 trial', '%1 trials', many, many.toLocaleString());
    },
    step: step => trans.__('step %1', step),
    cut: value => `${sign()} ${shown(value)}`,
    value: value => shown(value)
  };
}

function byKey({ trials }: ILayout, key: string): INode | null {
  const trial = Number(key.split(':')[2]);
  return trials.get(trial)?.find(node => node.key === key) ?? null;
}

/** The first node for the keyboard: the best of the first rung. */
function begin({ panels }: ILayout, key: string): INode | null {
  return MOVES.has(key) ? (panels[0]?.columns[0]?.nodes[0] ?? null) : null;
}

function reveal(scroll: HTMLElement, { x, y }: INode): void {
  const { clientWidth, clientHeight, scrollLeft, scrollTop } = scroll;
  const left = Math.max(x + 60 - clientWidth, Math.min(scrollLeft, x - 60));
  const top = Math.max(y + 60 - clientHeight, Math.min(scrollTop, y - 80));
  scroll.scrollTo(Math.max(0, left), Math.max(0, top));
}

/** The whole ladder in a sentence, for screen readers. */
function summary({ brackets, best, goal }: ILadder, trans: TranslationBundle): string {
  const entries = brackets.flatMap(({ rungs }) => rungs.flatMap(({ entries }) => entries));
  const count = (fate: string) => entries.filter(entry => entry.fate === fate).length;
  const parts = [
    trans._n('%1 bracket', '%1 brackets', brackets.length, brackets.length),
    trans.__('%1 training', count('training')),
    trans.__('%1 stopped', count('stopped')),
    trans.__('%1 completed', count('completed')),
    trans.__('%1 failed', count('failed'))
  ];
  if (best) {
    parts.push(trans.__('best %1 %2 at step %3', goal.metric, shown(best.value), best.step));
  }
  return `${parts.join(', ')}. ${trans.__('Arrow keys move between trials, Enter opens one.')}`;
}
