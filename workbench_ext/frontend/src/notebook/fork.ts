/** Forks: a cell of the notebook that continues from a checkpoint. Law: the user edits it and runs it. */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';

import { ITrialAnswer } from '../server/api';
import { IWorkbench } from '../tokens';
import { insert, trainCell } from './dataframe';
import { python, word } from '../trial/menu';
import { refused, tell } from '../notices';

export const forks: JupyterFrontEndPlugin<void> = {
  id: 'workbench-ext:forks',
  description: 'Puts a cell into the notebook that goes on from a trial’s checkpoint',
  autoStart: true,
  requires: [IWorkbench],
  optional: [INotebookTracker],
  activate: (
    { commands, shell }: JupyterFrontEnd,
    { api, documents, stores, trans }: IWorkbench,
    notebooks: INotebookTracker | null
  ) => {
    commands.addCommand('workbench:fork', {
      label: trans.__('Fork in the Notebook'),
      caption: trans.__('A cell that continues from its newest checkpoint, with your changes'),
      isEnabled: ({ trial }) => typeof trial === 'number' && Boolean(notebooks?.currentWidget),
      execute: async ({ experiment, store, trial, step }) => {
        const panel = notebooks?.currentWidget;
        const page = documents.find(
          one => one.experiment.ref === experiment && (store ?? one.experiment.store) === one.experiment.store
        );
        if (!panel || !page?.experiment.row) {
          tell('info', trans.__('Open a notebook first: the fork is added as a cell.'));
          return;
        }
        const { label } = page.experiment.row;
        if (stores.beside !== page.experiment.store) {
          tell(
            'info',
            trans.__(
              '%1 is not in the store beside the notebook. Open a notebook in %2 first: the fork is added as a cell.',
              label,
              stores.get(page.experiment.store)?.label ?? trans.__('its folder')
            )
          );
          return;
        }
        const number = Number(trial);
        const name = `${label}/t${String(number).padStart(4, '0')}`;
        try {
          const at = typeof step === 'number' ? step : await newest(page.experiment.store, String(experiment), number);
          if (at === null) {
            tell('info', trans.__('%1 has no checkpoint to continue from.', name));
            return;
          }
          shell.activateById(panel.id);
          await panel.context.ready;
          await panel.revealed;
          const cells = panel.content.widgets.map(({ model }) => model.sharedModel.getSource());
          const found = trainCell(cells, label);
          const { configuration, written } = page.experiment.trials.get(number) ?? {};
          const cell = found === null ? null : cells[found]!;
          insert(panel, label, forkCell(`${name}:${at}`, cell, configuration ?? {}, written));
          panel.content.activate();
        } catch (error) {
          refused(error);
        }
      }
    });

    /** The step of the newest intact checkpoint. */
    const newest = async (store: string, experiment: string, number: number): Promise<number | null> => {
      const path = `experiments/${encodeURIComponent(experiment)}/trials/${number}`;
      const { checkpoints } = await api.of(store).get<ITrialAnswer>(path);
      const steps = checkpoints.filter(({ sound }) => sound).map(one => one.step);
      return steps.length > 0 ? Math.max(...steps) : null;
    };
  }
};

/**
 * The source of a cell that forks `reference` (`digits@1/t0003:27`).
 *
 * train: the cell that trained it, if available: its code follows, with this trial's values.
 * written: those of its values that JavaScript has no number for, as the server wrote them.
 */
export function forkCell(
  reference: string,
  train: string | null,
  configuration: Readonly<Record<string, unknown>>,
  written: Readonly<Record<string, string>> = {}
): string {
  const name = reference.replace(/@.*$/, '');
  const head = `%%train ${word(`${name}-b`)} --from ${word(reference)}`;
  if (train === null) {
    return head;
  }
  const [, ...lines] = train.trimStart().split('\n');
  const body = lines
    .filter(line => !line.startsWith('#|'))
    .map(line => {
      const match = /^([^\W\d]\w*)(\s*:[^=]+)?\s*=(?!=)(.*)$/u.exec(line);
      const isHyperparameter = match !== null && Object.hasOwn(configuration, match[1]!) && isWhole(match[3]!);
      const own = match?.[1] ?? '';
      return isHyperparameter
        ? `${own} = ${Object.hasOwn(written, own) ? written[own]! : python(configuration[own])}`
        : line;
    });
  return [head, ...body].join('\n');
}

/** Whether every bracket opened in a line is closed in it. */
function isWhole(text: string): boolean {
  const count = (letters: RegExp) => (text.match(letters) ?? []).length;
  return count(/[([{]/g) === count(/[)\]}]/g) && !text.trimEnd().endsWith('\\');
}
