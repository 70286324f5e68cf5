/** All commands for experiments. Law: it sends requests and shows the answers; it decides nothing. */

import { InputDialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { ENDED, IAnswer, IExperiment, IRef, IRequest, ITrial } from '../server/api';
import { askText, confirmed } from './dialogs';
import { named } from './named';
import { Requests, isDone } from '../server/requests';
import { StoreModel } from '../stores/stores';
import { bytes } from '../words';
import { refused, tell } from '../notices';

type Args = ReadonlyPartialJSONObject;

/** What commands need from other plugins. */
export interface ITargets {
  /** The experiments of a command: those in its arguments, the selected ones, or that of the shown page. */
  of(args: Args): readonly IRef[];
  row(ref: IRef): IExperiment | undefined;
  /** A trial of an experiment whose page is open. */
  trial(row: IExperiment, number: number): ITrial | undefined;
  /** The store of a command without an experiment. */
  store(args: Args): StoreModel | null;
  /** All known experiments of a store, newest first. */
  all(store: string): readonly IExperiment[];
}

export function addCommands(
  commands: CommandRegistry,
  targets: ITargets,
  requests: Requests,
  trans: TranslationBundle
): void {
  const rows = (args: Args): readonly IExperiment[] =>
    targets
      .of(args)
      .map(ref => targets.row(ref))
      .filter(row => row !== undefined);
  const some = (fits: (row: IExperiment) => boolean) => (args: Args) => rows(args).some(fits);
  const one =
    (fits: (row: IExperiment) => boolean = () => true) =>
    (args: Args) => {
      const found = rows(args);
      return found.length === 1 && fits(found[0]!);
    };
  const trialOf = ({ trial }: Args): number | null => (typeof trial === 'number' ? trial : null);
  /** The commands that act on those selected experiments to which they apply. */
  const asking = (kind: IRequest['kind'], fits: (row: IExperiment) => boolean) => async (args: Args) => {
    await requests.askEach(kind, rows(args).filter(fits));
  };

  commands.addCommand('workbench:stop', {
    label: args => (trialOf(args) === null ? trans.__('Stop …') : trans.__('Stop This Trial')),
    caption: trans.__('Stop training; results are kept'),
    isEnabled: args => {
      const [row] = rows(args).filter(isGoing);
      const trial = trialOf(args);
      const state = row && trial !== null ? targets.trial(row, trial)?.state : undefined;
      return row !== undefined && (state === undefined || !ENDED.has(state));
    },
    execute: async args => {
      const found = rows(args).filter(isGoing);
      const trial = trialOf(args);
      if (trial !== null) {
        return requests.askEach('stop', [found[0]!], { trial });
      }
      const sure = await confirmed({
        title: trans.__('Stop %1?', named(found, trans)),
        body: trans.__('Results are kept. To continue later, pause it instead, or extend it.'),
        okLabel: trans.__('Stop'),
        trans
      });
      if (sure) {
        await requests.askEach('stop', found);
      }
    }
  });

  const canPause = (row: IExperiment) => row.state === 'running' || row.state === 'waiting';
  commands.addCommand('workbench:pause', {
    label: trans.__('Pause'),
    caption: trans.__('Checkpoint running trials, and start no new ones'),
    isEnabled: some(canPause),
    execute: asking('pause', canPause)
  });

  // A waiting one may lack an engine: resuming it starts one.
  const canResume = (row: IExperiment) => row.state === 'paused' || row.state === 'waiting';
  commands.addCommand('workbench:resume', {
    label: trans.__('Resume'),
    isEnabled: some(canResume),
    execute: asking('resume', canResume)
  });

  commands.addCommand('workbench:rename', {
    label: trans.__('Rename …'),
    isEnabled: one(),
    execute: async args => {
      const row = rows(args)[0]!;
      const { button, value } = await InputDialog.getText({
        title: trans.__('Rename %1', row.label),
        label: trans.__('Name'),
        text: row.name ?? row.label.replace(/@\d+$/, ''),
        okLabel: trans.__('Rename')
      });
      const name = value?.trim();
      if (button.accept && name && name !== row.name) {
        await requests.ask(row.store, 'rename', { experiment: row.id, name });
      }
    }
  });

  commands.addCommand('workbench:tag', {
    label: trans.__('Tag …'),
    isEnabled: some(() => true),
    execute: async args => {
      const found = rows(args);
      const many = found.length > 1;
      const { button, value } = await InputDialog.getText({
        title: many ? trans.__('Tags to add to %1', named(found, trans)) : trans.__('Tags of %1', named(found, trans)),
        label: trans.__('Separated by commas'),
        text: many ? '' : (found[0]!.tags ?? []).join(', '),
        okLabel: trans.__('Tag')
      });
      if (!button.accept) {
        return;
      }
      const given = (value ?? '')
        .split(',')
        .map(tag => tag.trim())
        .filter(Boolean);
      for (const row of found) {
        const tags = [...new Set([...(many ? (row.tags ?? []) : []), ...given])];
        if ((await requests.ask(row.store, 'tag', { experiment: row.id, tags })) === null) {
          return;
        }
      }
    }
  });

  commands.addCommand('workbench:note', {
    label: trans.__('Note …'),
    isEnabled: one(),
    execute: async args => {
      const row = rows(args)[0]!;
      const note = await askText({
        title: trans.__('Note on %1', row.label),
        label: trans.__('Note'),
        text: row.note ?? '',
        okLabel: trans.__('Save'),
        trans
      });
      if (note !== null && note !== row.note) {
        await requests.ask(row.store, 'note', { experiment: row.id, note });
      }
    }
  });

  commands.addCommand('workbench:compare-picked', {
    label: args => (rows(args).length > 1 ? trans.__('Compare') : trans.__('Compare With …')),
    isEnabled: args => {
      const [first, ...others] = rows(args);
      const isOne = first !== undefined && others.length === 0 && targets.all(first.store).length > 1;
      return commands.isEnabled('workbench:compare') && (others.length > 0 || isOne);
    },
    execute: async args => {
      const found = rows(args);
      const [first, second] = found;
      if (first && second) {
        const other = found.find(({ store }) => store !== first.store);
        if (other) {
          tell(
            'info',
            trans.__(
              '%1 and %2 are in different stores, and only experiments of one store can be compared. Copy one of them with `workbench export` and `workbench import` first.',
              first.label,
              other.label
            )
          );
          return null;
        }
        // The oldest first: what changed is read from left to right.
        const refs = [...found].sort((a, b) => a.created.localeCompare(b.created)).map(({ label }) => label);
        return commands.execute('workbench:compare', { refs, store: first.store }) as Promise<unknown>;
      }
      const others = targets.all(first!.store).filter(({ id }) => id !== first!.id);
      const sameName = others.filter(({ name }) => name !== null && name === first!.name);
      const { value } = await InputDialog.getItem({
        title: trans.__('Compare %1 with', first!.label),
        items: [...new Set([...sameName, ...others].map(({ label }) => label))],
        okLabel: trans.__('Compare')
      });
      const pair = { refs: [value, first!.label], store: first!.store };
      return value ? (commands.execute('workbench:compare', pair) as Promise<unknown>) : null;
    }
  });

  commands.addCommand('workbench:replay', {
    label: args => (trialOf(args) === null ? trans.__('Replay') : trans.__('Replay This Trial')),
    caption: trans.__('Train its snapshot again, and compare the results'),
    isEnabled: one(row => row.trials.begun > 0),
    execute: async args => {
      const row = rows(args)[0]!;
      const trial = trialOf(args);
      const answer = await requests.ask(row.store, 'replay', {
        experiment: row.id,
        ...(trial === null ? {} : { trial })
      });
      if (isDone(answer)) {
        tell('success', trans.__('%1 is being replayed.', row.label));
      }
    }
  });

  commands.addCommand('workbench:pin', {
    label: args =>
      args.pinned === true || (trialOf(args) === null && rows(args)[0]?.pinned) ? trans.__('Unpin') : trans.__('Pin'),
    caption: trans.__('Cleaning up never deletes pinned items'),
    isEnabled: one(),
    execute: async args => {
      const row = rows(args)[0]!;
      const trial = trialOf(args);
      const pinned = args.pinned === true || (trial === null && row.pinned === true);
      await requests.ask(row.store, pinned ? 'unpin' : 'pin', {
        experiment: row.id,
        ...(trial === null ? {} : { trial }),
        ...(typeof args.step === 'number' ? { step: args.step } : {})
      });
    }
  });

  const canDelete = (row: IExperiment) => ENDED.has(row.state) && !row.deleting;
  commands.addCommand('workbench:delete', {
    label: trans.__('Delete …'),
    isEnabled: some(canDelete),
    execute: async args => {
      const found = rows(args).filter(canDelete);
      const lost = await requests.bytesOf(found);
      const trials = found.reduce((sum, row) => sum + row.trials.begun, 0);
      const what = trans._n('%1 trial', '%1 trials', trials, trials);
      const sure = await confirmed({
        title: trans.__('Delete %1?', named(found, trans)),
        body:
          lost === null
            ? trans.__('%1 with all curves, logs and checkpoints will be deleted.', what)
            : trans.__('%1 with all curves, logs and checkpoints will be deleted: %2.', what, bytes(lost)),
        okLabel: trans.__('Delete'),
        trans
      });
      if (sure) {
        await requests.delete(found, named(found, trans));
      }
    }
  });

  commands.addCommand('workbench:undo-delete', {
    label: trans.__('Undo Deletion'),
    isVisible: args => rows(args).some(({ deleting }) => Boolean(deleting)),
    isEnabled: some(({ deleting }) => Boolean(deleting)),
    execute: async args => {
      const found = rows(args).filter(({ deleting }) => Boolean(deleting));
      const sent = found.map(({ store, deleting }) => ({ store, request: deleting! }));
      await requests.withdraw(sent, named(found, trans));
    }
  });

  commands.addCommand('workbench:clean-up', {
    label: trans.__('Clean Up the Store …'),
    caption: trans.__('Delete checkpoints not kept by any rule, and unreferenced data'),
    isEnabled: args => targets.store(args) !== null,
    execute: async args => {
      const store = targets.store(args)!.id;
      const plan = await requests.ask(store, 'gc', { dry_run: true });
      if (plan === null) {
        return;
      }
      const freed = amount(plan);
      if (freed === 0) {
        tell('info', trans.__('There is nothing to clean up.'));
        return;
      }
      const sure = await confirmed({
        title: trans.__('Clean up the store?'),
        body:
          freed === null
            ? trans.__('Checkpoints not kept by any rule, and unreferenced data, will be deleted.')
            : trans.__(
                '%1 will be freed: checkpoints not kept by any rule, and unreferenced data. Pinned items are kept.',
                bytes(freed)
              ),
        okLabel: trans.__('Clean Up'),
        trans
      });
      const done = sure ? await requests.ask(store, 'gc', { dry_run: false }) : null;
      if (isDone(done)) {
        tell('success', trans.__('Cleaned up: %1 freed.', bytes(amount(done) ?? freed ?? 0)));
      }
    }
  });

  commands.addCommand('workbench:start-engine', {
    label: trans.__('Start the Engine'),
    isEnabled: args => targets.store(args) !== null,
    execute: async args => {
      // A query that changes nothing; an engine is started to answer it.
      await requests.ask(targets.store(args)!.id, 'gc', { dry_run: true });
    }
  });

  commands.addCommand('workbench:copy-label', {
    label: trans.__('Copy Name'),
    isEnabled: some(() => true),
    execute: args =>
      navigator.clipboard
        .writeText(
          rows(args)
            .map(({ label }) => label)
            .join('\n')
        )
        .catch(refused)
  });
}

/** What stopping would end. */
function isGoing({ state }: IExperiment): boolean {
  return !ENDED.has(state) && state !== 'stopping';
}

/** The sum of bytes of all kinds in an answer about cleaning up. */
function amount(answer: IAnswer): number | null {
  return isDone(answer) ? (answer.total ?? null) : null;
}
