/** Inserts trials into the notebook: a cell with a DataFrame. Law: the cell is plain Python that the user may keep. */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker, NotebookActions, NotebookPanel } from '@jupyterlab/notebook';

import { IWorkbench } from '../tokens';
import { tell } from '../notices';

/** Characters in a line of the list of trials. */
const WIDTH = 88;

export const toNotebook: JupyterFrontEndPlugin<void> = {
  id: 'workbench-ext:to-notebook',
  description: 'Takes selected trials to the notebook as a DataFrame',
  autoStart: true,
  requires: [IWorkbench],
  optional: [INotebookTracker],
  activate: (
    { commands, shell }: JupyterFrontEnd,
    { stores, trans }: IWorkbench,
    notebooks: INotebookTracker | null
  ) => {
    commands.addCommand('workbench:select-to-notebook', {
      label: args => {
        const count = Array.isArray(args.trials) ? args.trials.length : 0;
        return count > 0
          ? trans._n('Insert %1 Trial as DataFrame', 'Insert %1 Trials as DataFrame', count, count)
          : trans.__('Insert Trials as DataFrame');
      },
      isEnabled: () => notebooks?.currentWidget !== null && notebooks !== null,
      execute: async args => {
        const panel = notebooks?.currentWidget;
        if (!panel) {
          tell('info', trans.__('Open a notebook first: the trials are inserted as a cell.'));
          return;
        }
        const label = String(args.label ?? args.experiment);
        const trials = Array.isArray(args.trials) ? args.trials.map(Number) : [];
        shell.activateById(panel.id);
        await panel.context.ready;
        await panel.revealed;
        // Python finds the store beside the notebook; any other one is given by its path.
        const other = typeof args.store === 'string' && args.store !== stores.beside ? args.store : '';
        insert(panel, label, selection(label, trials, stores.get(other)?.info.root));
        await NotebookActions.run(panel.content, panel.sessionContext);
        panel.content.activate();
      }
    });
  }
};

/** Insert a cell below the experiment's `%%train` cell, or below the active one, and activate it. */
export function insert(panel: NotebookPanel, label: string, source: string): void {
  const { content } = panel;
  const cells = content.widgets.map(({ model }) => model.sharedModel.getSource());
  const at = trainCell(cells, label);
  if (at !== null) {
    content.activeCellIndex = at;
  }
  content.deselectAll();
  NotebookActions.insertBelow(content);
  content.activeCell?.model.sharedModel.setSource(source);
}

/** The last cell that trains the experiment of this label (`digits@2`); null where there is none. */
export function trainCell(cells: readonly string[], label: string): number | null {
  const name = label.replace(/@\d+$/, '');
  for (let at = cells.length - 1; at >= 0; at -= 1) {
    const found = /^\s*%%train[ \t]+(?!-)(?:"([^"\n]+)"|'([^'\n]+)'|(\S+))/.exec(cells[at]!);
    if (found && (found[1] ?? found[2] ?? found[3]) === name) {
      return at;
    }
  }
  return null;
}

/**
 * Python code that loads these trials of an experiment into a DataFrame `selected`.
 *
 * root: the folder of its store, unless that is the one beside the notebook.
 */
export function selection(label: string, trials: readonly number[], root?: string): string {
  const names = [...trials].sort((a, b) => a - b).map(number => JSON.stringify(`t${String(number).padStart(4, '0')}`));
  const opened = root === undefined ? named(label) : `${named(label)}, store=${named(root)}`;
  const one = `selected = wb.open(${opened}).trials.loc[[${names.join(', ')}]]`;
  const head = 'import workbench as wb\n\n';
  return `${head}${one.length <= WIDTH ? one : broken(opened, names)}\nselected`;
}

function named(text: string): string {
  return JSON.stringify(text);
}

function broken(opened: string, names: readonly string[]): string {
  const lines: string[] = [];
  let line = '   ';
  for (const name of names) {
    if (line.length + name.length + 2 > WIDTH) {
      lines.push(line);
      line = '   ';
    }
    line += ` ${name},`;
  }
  lines.push(line);
  return `selected = wb.open(${opened}).trials.loc[[\n${lines.join('\n')}\n]]`;
}
