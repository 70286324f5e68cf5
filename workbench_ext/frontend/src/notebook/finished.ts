/** The output of a cell whose experiment has ended. Law: the live view while its kernel has it, otherwise the figure. */

import type { INotebookTracker } from '@jupyterlab/notebook';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { Panel } from '@lumino/widgets';

import { refused } from '../notices';

/** What the kernel adds to the figure's bundle (src/workbench/live/show.py): the live view's model. */
export const FINISHED = 'application/vnd.workbench.finished+json';
const VIEW = 'application/vnd.jupyter.widget-view+json';

/** The page's side of live views keeps here, by their uid, which of them it has, and dispatches an event for each that
 * comes (src/workbench/live/page/view.js). */
const VIEWS = Symbol.for('workbench.views');
const ARRIVED = 'workbench:view';

/** A live view, as the kernel names it: the widget's model, and its own name on the page. */
interface IView {
  readonly model_id: string;
  readonly uid: string;
}

/** Before every other way to show the figure. */
const RANK = -20;

/** The parts of a notebook's rendering that are used here. */
export interface IRendering {
  readonly mimeTypes: readonly string[];
  createRenderer(mimeType: string): IRenderMime.IRenderer;
  preferredMimeType(data: IRenderMime.IMimeModel['data'], safe: 'any'): string | undefined;
}

/** Show ended experiments of each notebook in this way. An untrusted notebook shows the figure. */
export function showFinished(notebooks: INotebookTracker): void {
  notebooks.widgetAdded.connect((_, panel) => {
    const { rendermime } = panel.content;
    rendermime.addFactory({ safe: false, mimeTypes: [FINISHED], createRenderer: () => new Finished(rendermime) }, RANK);
  });
}

function known(): ReadonlySet<string> {
  return (globalThis as unknown as { [VIEWS]?: ReadonlySet<string> })[VIEWS] ?? new Set();
}

/** The figure; in its place the live view if the page has its model, as soon as it does. */
export class Finished extends Panel implements IRenderMime.IRenderer {
  constructor(private readonly rendering: IRendering) {
    super();
    this.addClass('jp-WorkbenchFinished');
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const { [FINISHED]: told, ...figure } = model.data;
    const view = told as unknown as IView;
    document.removeEventListener(ARRIVED, this.arrived);
    const live = { [VIEW]: { model_id: view.model_id, version_major: 2, version_minor: 0 } };
    const isHere = () => known().has(view.uid) && this.rendering.mimeTypes.includes(VIEW);
    if (isHere()) {
      return this.put(VIEW, model, live);
    }
    this.arrived = () => {
      if (isHere()) {
        document.removeEventListener(ARRIVED, this.arrived);
        this.put(VIEW, model, live).catch(refused);
      }
    };
    document.addEventListener(ARRIVED, this.arrived);
    const type = this.rendering.preferredMimeType(figure, 'any');
    await (type && this.put(type, model, figure));
  }

  dispose(): void {
    document.removeEventListener(ARRIVED, this.arrived);
    super.dispose();
  }

  /** Show `data`, a part of the output's `model`, in the place of what is there. */
  private async put(type: string, model: IRenderMime.IMimeModel, data: IRenderMime.IMimeModel['data']): Promise<void> {
    const renderer = this.rendering.createRenderer(type);
    this.widgets.slice().forEach(widget => widget.dispose());
    this.addWidget(renderer);
    const { trusted, metadata } = model;
    await renderer.renderModel({ trusted, metadata, data, setData: options => model.setData(options) });
  }

  private arrived = (): void => undefined;
}
