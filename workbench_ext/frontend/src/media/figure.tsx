/** A figure of Plotly, drawn in the page. */

import * as React from 'react';

import { useSignal } from '../hooks';
import { ITrialFile } from '../server/api';
import { harmless } from './harmless';
import { ISource, pathOf } from './source';

/** A Plotly figure, drawn by Plotly: its JSON contains no code, and no address in it is fetched. */
export function PlotlyFigure({ source, file }: { source: ISource; file: ITrialFile }): React.JSX.Element {
  const { context } = source;
  const box = React.useRef<HTMLDivElement>(null);
  const themed = useSignal(context.themeChanged);
  const [trouble, setTrouble] = React.useState<string | null>(null);
  React.useEffect(() => {
    let gone = false;
    const draw = async () => {
      const [plotly, logged] = await Promise.all([
        context.plotly(),
        context.api.get<{ data?: object[]; layout?: object }>(pathOf(source, file))
      ]);
      const figure = harmless(logged);
      if (!gone && box.current) {
        const style = getComputedStyle(document.body);
        const layout = {
          ...figure.layout,
          autosize: true,
          paper_bgcolor: 'rgba(0,0,0,0)',
          plot_bgcolor: 'rgba(0,0,0,0)',
          font: { color: style.getPropertyValue('--jp-ui-font-color1').trim() }
        };
        await plotly.react(box.current, figure.data ?? [], layout, {
          displaylogo: false,
          responsive: true,
          modeBarButtonsToRemove: ['sendChartToCloud'] // it uploads the figure to a service
        });
      }
    };
    draw().catch((error: unknown) => {
      if (!gone) {
        setTrouble(error instanceof Error ? error.message : String(error));
      }
    });
    return () => {
      gone = true;
    };
    // eslint-disable-next-line react-hooks/exhaustive-deps -- a file is identified by its name; each answer makes a new object
  }, [source.experiment, source.trial, file.name, file.bytes, themed]);
  React.useEffect(() => {
    const node = box.current;
    return () => {
      if (node?.classList.contains('js-plotly-plot')) {
        void context.plotly().then(plotly => plotly.purge(node));
      }
    };
    // eslint-disable-next-line react-hooks/exhaustive-deps -- only when the figure goes; Plotly is the same for all
  }, []);
  return trouble ? <p role="status">{trouble}</p> : <div className="wb-File-figure" ref={box} />;
}
