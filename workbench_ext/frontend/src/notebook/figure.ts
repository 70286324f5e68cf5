/** Replaces a live view by a figure if the kernel cannot: on a page that was reloaded since. Law: at most once. */

import { JupyterFrontEnd } from '@jupyterlab/application';
import { Widget } from '@lumino/widgets';

const VIEW = 'application/vnd.jupyter.widget-view+json';

/** The event that a live view dispatches on the document when its experiment has ended and it was not replaced. */
interface IFigure {
  readonly view: Node;
  /** The figure for every kind of viewer, by MIME type. */
  readonly bundle: Readonly<Record<string, unknown>>;
  /** The experiment's id, which stays with the figure. */
  readonly experiment?: string;
}

/** A code cell's outputs: `widgets` shows what `model` holds, in the same order. */
interface IOutputArea {
  readonly widgets: readonly Widget[];
  readonly model: {
    get(index: number): { readonly data: Readonly<Record<string, unknown>> };
    set(index: number, output: object): void;
  };
}

/** A document that may be a notebook. Structural, so that pages without notebooks do not need their package. */
interface IDocument {
  readonly content?: {
    readonly widgets?: readonly { readonly outputArea?: IOutputArea }[];
  };
}

/** Listen for figures. The output of a cell is changed as the kernel would do it, so the saved notebook has the figure.
 * */
export function keepFigures(shell: JupyterFrontEnd.IShell): void {
  document.addEventListener('workbench:figure', event => {
    const { view, bundle, experiment } = (event as CustomEvent<IFigure>).detail;
    const metadata = {
      ...(experiment ? { workbench: { experiment } } : {}),
      'image/png': { alt: bundle['text/plain'] }
    };
    for (const area of outputAreas(shell)) {
      const index = area.widgets.findIndex(widget => widget.node.contains(view));
      // The kernel's own figure may have come first.
      if (index >= 0 && VIEW in area.model.get(index).data) {
        area.model.set(index, { output_type: 'display_data', data: bundle, metadata });
        return;
      }
    }
  });
}

function* outputAreas(shell: JupyterFrontEnd.IShell): Generator<IOutputArea> {
  for (const panel of shell.widgets('main')) {
    for (const { outputArea } of (panel as Widget & IDocument).content?.widgets ?? []) {
      if (outputArea) {
        yield outputArea;
      }
    }
  }
}
