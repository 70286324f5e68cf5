/** What can be done with the ticked trials together. What is not possible for all of them is grey, and says why. */

import { Table } from '@tanstack/react-table';
import * as React from 'react';

import { MOST_COMPARED } from '../compare/rows';
import { IContext } from '../experiment/context';
import { useCommands, useSelected, useSignal } from '../hooks';
import { ITrial } from '../server/api';
import { Action, ACTIONS, refusal } from './bulk';
import { IColumn } from './columns';
import { csv, save } from './csv';

export function Ticked(props: {
  context: IContext;
  columns: readonly IColumn[];
  table: Table<ITrial>;
}): React.JSX.Element | null {
  const { context, columns, table } = props;
  const { trans, experiment, commands, selection, openCompare } = context;
  useCommands(commands);
  useSignal(experiment.changed);
  const ticked = useSelected(selection);
  const trials = [...ticked].flatMap(number => experiment.trials.get(number) ?? []);
  const { row } = experiment;
  if (!row) {
    return null;
  }
  const numbers = trials.map(({ number }) => number).sort((a, b) => a - b);
  const act = async (action: Action) => {
    if (action === 'delete') {
      await commands.execute(COMMANDS.delete, { ...experiment.named, numbers });
      return;
    }
    for (const trial of numbers) {
      await commands.execute(COMMANDS[action], { ...experiment.named, trial });
    }
  };
  const words: Readonly<Record<Action, readonly [label: string, caption: string]>> = {
    stop: [trans.__('Stop'), trans.__('Stop the ticked trials; results are kept')],
    pause: [trans.__('Pause'), trans.__('Save the ticked trials and free their slots; the other trials go on')],
    resume: [trans.__('Resume'), trans.__('Continue the ticked trials, which were paused or stopped by a person')],
    pin: [trans.__('Pin'), trans.__('Cleaning up never deletes the checkpoints of pinned trials')],
    delete: [trans.__('Delete …'), trans.__('Delete the checkpoints and files of the ticked trials')]
  };
  // Two in the order of their numbers; of several, the first ticked is the one that others are compared with.
  const compared = trials.length === 2 ? numbers : trials.map(({ number }) => number);
  const refs = compared.map(number => `${row.label}/t${String(number).padStart(4, '0')}`);
  const wrong =
    refs.length < 2
      ? trans.__('Tick at least two trials to compare them.')
      : refs.length > MOST_COMPARED
        ? trans.__('At most %1 trials can be compared at once.', MOST_COMPARED)
        : null;
  return (
    // Without a ticked trial it keeps its room: a first click that moved the rows would put the second one of a double
    // click on another trial.
    <span
      className={trials.length > 0 ? 'wb-Ticked' : 'wb-Ticked wb-mod-none'}
      role="group"
      aria-label={trans.__('Selected trials')}
    >
      <Button
        label={trans.__('Compare')}
        caption={trans.__('Curves, configurations and what differs, side by side')}
        refused={wrong}
        onClick={() => openCompare(...refs)}
      />
      {ACTIONS.map(action => (
        <Button
          key={action}
          label={words[action][0]}
          caption={words[action][1]}
          refused={refusal(action, trials, row, trans)}
          onClick={() => void act(action)}
        />
      ))}
      <Button
        label={trans.__('Export CSV')}
        caption={trans.__('Save the shown columns of the ticked trials as a file')}
        refused={null}
        onClick={() => {
          const shown = columns.filter(({ id }) => table.getColumn(id)?.getIsVisible());
          const rows = table.getSortedRowModel().rows.map(({ original }) => original);
          const sorted = rows.filter(({ number }) => ticked.has(number));
          const hidden = trials.filter(({ number }) => !sorted.some(one => one.number === number));
          save(`${row.label}-trials.csv`, csv(shown, [...sorted, ...hidden]));
        }}
      />
    </span>
  );
}

const COMMANDS: Readonly<Record<Action, string>> = {
  stop: 'workbench:stop',
  pause: 'workbench:pause-trial',
  resume: 'workbench:resume-trial',
  pin: 'workbench:pin',
  delete: 'workbench:delete-trials'
};

/** `refused`: why it is not possible now. */
function Button(props: {
  label: string;
  caption: string;
  refused: string | null;
  onClick: () => void;
}): React.JSX.Element {
  const { label, caption, refused, onClick } = props;
  return (
    <button
      type="button"
      className="wb-Button"
      disabled={refused !== null}
      title={refused ?? caption}
      onClick={onClick}
    >
      {label}
    </button>
  );
}
