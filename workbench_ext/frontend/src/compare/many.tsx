/** Three or more trials side by side: their curves, their results, configurations and media, and what
 * differs from one. */

import { InputDialog } from '@jupyterlab/apputils';
import * as React from 'react';

import { IChartContext, IPageContext } from '../experiment/context';
import { Selection } from '../experiment/selection';
import { useSeen, useSignal } from '../hooks';
import { Beside } from '../media/beside';
import { goalValue } from '../parameters/parameters';
import { ITrial } from '../server/api';
import { openTrialMenu } from '../trial/menu';
import { Baseline } from './baseline';
import { IMember, Lineup } from './lineup';
import { Overlay, useColours } from './overlay';
import { bestOf } from './rows';
import { ManyTable } from './table';

export function CompareMany(props: {
  context: IPageContext;
  refs: readonly string[];
  onRefs: (refs: readonly string[]) => void;
}): React.JSX.Element {
  const { context } = props;
  const { api, live, trans } = context;
  const host = React.useRef<HTMLElement>(null);
  const seen = useSeen(host);
  const [refs, setRefs] = React.useState(props.refs);
  const [lineup, setLineup] = React.useState<Lineup | null>(null);
  const [, again] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    const made = new Lineup(api, live, refs);
    made.changed.connect(again);
    setLineup(made);
    return () => made.dispose();
  }, [api, live, refs]);
  React.useEffect(() => {
    if (lineup) {
      lineup.watched = seen;
    }
  }, [lineup, seen]);

  const change = (next: readonly string[]) => {
    setRefs(next);
    props.onRefs(next);
  };
  const add = async () => {
    const { button, value } = await InputDialog.getText({
      title: trans.__('Add a trial'),
      label: trans.__('A trial such as digits@2/t0007, or an experiment for its best trial'),
      okLabel: trans.__('Add')
    });
    const given = value?.trim();
    if (button.accept && given && !refs.includes(given)) {
      change([...refs, given]);
    }
  };
  const members = lineup?.members ?? null;
  return (
    <article className="wb-Compare wb-Many" ref={host} aria-label={trans.__('Comparison of %1 trials', refs.length)}>
      <header className="wb-Compare-head">
        <h2>{trans.__('%1 trials', refs.length)}</h2>
        <span className="wb-Compare-actions">
          <button
            type="button"
            className="wb-Button"
            title={trans.__('Also a trial of another experiment of this store')}
            onClick={() => void add()}
          >
            {trans.__('Add a Trial …')}
          </button>
        </span>
      </header>
      {members ? (
        <Members context={context} members={members} onRemove={at => change(refs.filter((_, place) => place !== at))} />
      ) : (
        <Unread context={context} error={lineup?.error ?? null} refs={refs} onRefs={change} />
      )}
    </article>
  );
}

/** One of them cannot be read: without it the others can. */
function Unread(props: {
  context: IPageContext;
  error: string | null;
  refs: readonly string[];
  onRefs: (refs: readonly string[]) => void;
}): React.JSX.Element {
  const { context, error, refs, onRefs } = props;
  const { trans } = context;
  return (
    <>
      <p className="wb-Note" role="status">
        {error ?? trans.__('Reading the trials …')}
      </p>
      {error && refs.length > 2 && (
        <p className="wb-Many-without">
          {refs.map(ref => (
            <button
              key={ref}
              type="button"
              className="wb-Button"
              onClick={() => onRefs(refs.filter(other => other !== ref))}
            >
              {trans.__('Without %1', ref)}
            </button>
          ))}
        </p>
      )}
    </>
  );
}

function Members(props: {
  context: IPageContext;
  members: readonly IMember[];
  onRemove: (place: number) => void;
}): React.JSX.Element {
  const { context, members, onRemove } = props;
  const { trans, commands } = context;
  const selection = React.useMemo(() => new Selection(), []);
  useSignal(selection.changed);
  const rows = members.map(({ experiment, number }) => experiment.trials.get(number));
  const looks = members.map(({ experiment }) =>
    [...experiment.trials.values()].map(({ state, value }) => `${state}${value}`).join()
  );
  const colours = useColours(context, members, looks.join());
  const goals = new Set(members.map(({ experiment }) => JSON.stringify(experiment.goal)));
  const goal = goals.size === 1 ? members[0]!.experiment.goal : null;
  const open = (place: number) => {
    const { experiment, number } = members[place]!;
    void commands.execute('workbench:open-trial', { ...experiment.named, trial: number });
  };
  const chart: IChartContext = {
    trans,
    selection,
    experiment: { goal, trials: byPlace(members, rows) },
    openTrial: open,
    openMenu: (place, left, top) => {
      const { experiment, number } = members[place]!;
      openTrialMenu({ commands, experiment, selection: new Selection() }, number, left, top);
    }
  };
  // Only values of one goal can be ranked.
  const values = rows.map(row => (row ? goalValue(row) : NaN));
  const best = goal ? (bestOf(values, goal.mode)[0] ?? null) : null;
  return (
    <>
      <Overlay context={context} chart={chart} members={members} colours={colours} best={best} />
      <ManyTable
        context={context}
        members={members}
        rows={rows}
        goal={goal}
        colours={colours}
        selection={selection}
        onOpen={open}
        onRemove={members.length > 2 ? onRemove : null}
      />
      <Beside
        context={context}
        sides={members.map(({ ref, experiment, number }, place) => ({
          label: ref,
          experiment: experiment.ref,
          trial: number,
          change: rows[place]?.change ?? 0
        }))}
      />
      <Baseline context={context} members={members} />
    </>
  );
}

/** The trials' rows, each under its place among the compared ones. */
function byPlace(members: readonly IMember[], rows: readonly (ITrial | undefined)[]): ReadonlyMap<number, ITrial> {
  return new Map(
    rows.flatMap((row, place) => (row ? [[place, { ...row, number: place, label: members[place]!.ref }] as const] : []))
  );
}
