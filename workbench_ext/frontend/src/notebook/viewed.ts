/** The output of a cell with a live view. Law: the view while the page has its model; before, and once its kernel is
 * gone, the figure of an experiment that has ended, or words. */

import type { INotebookTracker } from '@jupyterlab/notebook';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Panel, Widget } from '@lumino/widgets';

import { refused } from '../notices';

/** What the kernel adds to the bundles of a live view (src/workbench/live/view.py), and of the figure that takes its
 * place (show.py): the view's model. */
const LIVE = 'application/vnd.workbench.live+json';
const FINISHED = 'application/vnd.workbench.finished+json';
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

/** Before every other way to show the output. */
const RANK = -20;

/** The parts of a notebook's rendering that are used here. */
export interface IRendering {
  readonly mimeTypes: readonly string[];
  createRenderer(mimeType: string): IRenderMime.IRenderer;
  preferredMimeType(data: IRenderMime.IMimeModel['data'], safe: 'any'): string | undefined;
}

/** Show the experiments of each notebook in this way. An untrusted notebook shows the figure, or text. */
export function showViews(notebooks: INotebookTracker, trans: TranslationBundle): void {
  const waiting = trans.__('The live view comes with the notebook’s kernel.');
  notebooks.widgetAdded.connect((_, panel) => {
    const { rendermime } = panel.content;
    const add = (mimeType: string, createRenderer: () => Viewed) =>
      rendermime.addFactory({ safe: false, mimeTypes: [mimeType], createRenderer }, RANK);
    add(LIVE, () => new Viewed(rendermime, LIVE, waiting));
    add(FINISHED, () => new Viewed(rendermime, FINISHED, waiting));
  });
}

function known(): ReadonlySet<string> {
  return (globalThis as unknown as { [VIEWS]?: ReadonlySet<string> })[VIEWS] ?? new Set();
}

/** The figure, or words where there is none yet; in their place the live view if the page has its model, as soon as it
 * does. */
export class Viewed extends Panel implements IRenderMime.IRenderer {
  constructor(
    private readonly rendering: IRendering,
    private readonly type: string,
    private readonly waiting: string
  ) {
    super();
    // By this name the view knows that the figure is in the notebook.
    this.addClass(type === FINISHED ? 'jp-WorkbenchFinished' : 'jp-WorkbenchLive');
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const { [this.type]: told, [VIEW]: view, ...figure } = model.data;
    const { model_id, uid } = told as unknown as IView;
    document.removeEventListener(ARRIVED, this.arrived);
    const live = { [VIEW]: { model_id, version_major: 2, version_minor: 0 } };
    const isHere = () => known().has(uid) && this.rendering.mimeTypes.includes(VIEW);
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
    if (view) {
      const words = new Widget();
      words.node.textContent = this.waiting;
      return this.instead(words);
    }
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
    this.instead(renderer);
    const { trusted, metadata } = model;
    await renderer.renderModel({ trusted, metadata, data, setData: options => model.setData(options) });
  }

  private instead(widget: Widget): void {
    this.widgets.slice().forEach(one => one.dispose());
    this.addWidget(widget);
  }

  private arrived = (): void => undefined;
}
