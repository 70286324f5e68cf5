/** How the search went: the goal of each trial at a level, in the order of their ends or starts, and the best so far. */

import * as React from 'react';

import { Choice, Modes, Tick } from '../chart/controls';
import { IPicture, IView, Mode, Plot } from '../chart/plot';
import { IContext } from '../experiment/context';
import { useKept } from '../hooks';
import { IValue } from '../parameters/values';
import { By, IStanding, standings } from './order';
import { levelPicture } from './picture';
import { IShared, useShared } from './shared';
import { Level, LevelStatus, Waits } from './status';

export function HistoryView({ context }: { context: IContext }): React.JSX.Element {
  const { trans, state, experiment } = context;
  const shared = useShared(context, 'value');
  const { trials, goal, chosen, theme, colours, selected } = shared;
  const [by, setBy] = useKept<By>(state, 'history.order', 'ended');
  const [log, setLog] = useKept<boolean>(state, 'history.log', false);
  const [mode, setMode] = useKept<Mode>(state, 'history.mode', 'select');
  const [view, setView] = React.useState<IView | null>(null);
  const direction = experiment.goal?.mode ?? 'max';
  const order = React.useMemo(
    () => standings(trials, new Map(trials.map(trial => [trial.number, goal.of(trial)])), by, direction),
    [trials, goal, by, direction]
  );
  const label = by === 'ended' ? trans.__('trials by end') : trans.__('trials by start');
  const picture = React.useMemo(
    () => levelPicture({ shared, x: placeOf(order, label), y: goal, logY: log, view, under: bestLine(order, shared) }),
    // eslint-disable-next-line react-hooks/exhaustive-deps -- `shared` is a new object at each rendering: what is in it counts
    [order, colours, selected, theme, label, goal, log, view]
  );
  React.useEffect(() => setView(null), [by, log, goal]);
  const last = order[order.length - 1];
  const canLog = trials.some(trial => goal.of(trial) > 0);
  return (
    <div className="wb-View wb-History">
      <div className="wb-Controls" role="toolbar" aria-label={trans.__('What the history shows')}>
        <Level shared={shared} />
        <Choice
          label={trans.__('Order')}
          value={by}
          onChange={value => setBy(value as By)}
          options={[
            ['ended', trans.__('by end')],
            ['started', trans.__('by start')]
          ]}
        />
        {canLog && <Tick label={trans.__('log y')} value={log} onChange={setLog} />}
        <span className="wb-Controls-gap" />
        <Modes trans={trans} mode={mode} onMode={setMode} zoomed={view !== null} onReset={() => setView(null)} />
      </div>
      <Waits words={chosen.waits} />
      {chosen.waits === null && (
        <>
          <LevelStatus shared={shared} shown={picture.order.length} />
          <Plot
            context={context}
            picture={picture}
            theme={theme}
            mode={mode}
            summary={
              trans._n('%1 trial: %2, %3.', '%1 trials: %2, %3.', picture.order.length, goal.label, label) +
              ' ' +
              (last ? trans.__('The line is the best so far, at last %1.', goal.text(last.best)) : '')
            }
            onView={setView}
          />
        </>
      )}
    </div>
  );
}

/** The place in the order, as a quantity of trials. */
function placeOf(order: readonly IStanding[], label: string): IValue {
  const places = new Map(order.map(({ trial, place }) => [trial, place]));
  return {
    id: 'place',
    label,
    group: label,
    parameter: null,
    whole: true,
    of: ({ number }) => places.get(number) ?? NaN,
    text: String
  };
}

/** Paints the best so far, as steps. */
function bestLine(order: readonly IStanding[], { theme }: IShared): IPicture['paint'] {
  return (paper, x, y) => {
    paper.strokeStyle = theme.brand;
    paper.lineWidth = 2;
    paper.beginPath();
    order.forEach(({ place, best }, at) => {
      const [left, top] = [x.of(place), y.of(best)];
      if (Number.isNaN(top)) {
        return; // a logarithmic axis has no place for it
      }
      if (at === 0 || Number.isNaN(y.of(order[at - 1]!.best))) {
        paper.moveTo(left, top);
      } else {
        paper.lineTo(left, y.of(order[at - 1]!.best));
        paper.lineTo(left, top);
      }
    });
    paper.stroke();
  };
}
