/** Plotly, loaded once for the whole page: live views and experiments' pages share it. Law: only from our own server.
 * */

import { Api } from '../server/api';

/** The few functions of Plotly that views call. Data and layout are Plotly's own JSON. */
export interface IPlotly {
  newPlot(node: HTMLElement, data: readonly object[], layout?: object, config?: object): Promise<HTMLElement>;
  react(node: HTMLElement, data: readonly object[], layout?: object, config?: object): Promise<HTMLElement>;
  restyle(node: HTMLElement, update: object, traces?: number | readonly number[]): Promise<HTMLElement>;
  relayout(node: HTMLElement, update: object): Promise<HTMLElement>;
  purge(node: HTMLElement): void;
  readonly Plots: { resize(node: HTMLElement): Promise<void> };
}

/** The live view of a cell keeps it there too (src/workbench/live/page/plotly.js). */
const PLOTLY = Symbol.for('workbench.plotly');

export function loadPlotly(api: Api): Promise<IPlotly> {
  const shared = globalThis as unknown as { [PLOTLY]?: Promise<IPlotly> };
  shared[PLOTLY] ??= load(api);
  shared[PLOTLY].catch(() => delete shared[PLOTLY]);
  return shared[PLOTLY];
}

async function load(api: Api): Promise<IPlotly> {
  // Another extension's module loader would otherwise swallow it.
  const text = `const define = undefined, module = undefined, exports = undefined;\n${await api.ours('static/plotly.min.js')}\nexport default window.Plotly;`;
  const page = window as unknown as { Plotly?: IPlotly };
  const before = page.Plotly;
  const url = URL.createObjectURL(new Blob([text], { type: 'text/javascript' }));
  try {
    const { default: found } = (await import(/* webpackIgnore: true */ url)) as {
      default: IPlotly;
    };
    return found;
  } finally {
    URL.revokeObjectURL(url);
    if (before) {
      page.Plotly = before;
    }
  }
}
