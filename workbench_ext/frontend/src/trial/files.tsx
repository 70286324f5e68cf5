/** Figures, images, sounds and texts that a trial kept, by step. */

import * as React from 'react';

import { ITrialFile, experimentPath } from '../server/api';
import { IContext } from '../experiment/context';
import { useAsked, useSignal } from '../hooks';
import { bytes } from '../words';

/** Maximum bytes of a text that is shown here; a longer one is downloaded. */
const MOST_TEXT = 200_000;

export function TrialFiles(props: {
  context: IContext;
  trial: number;
  files: readonly ITrialFile[];
}): React.JSX.Element {
  const titles = new Map<string, ITrialFile[]>();
  for (const file of props.files) {
    const title = file.title ?? file.name;
    titles.set(title, [...(titles.get(title) ?? []), file]);
  }
  return (
    <div className="wb-Files">
      {[...titles].map(([title, files]) => (
        <BySteps key={title} {...props} title={title} files={files} />
      ))}
    </div>
  );
}

/** One file title over its steps, with a slider. New steps are shown while the slider is at the end. */
function BySteps(props: {
  context: IContext;
  trial: number;
  title: string;
  files: readonly ITrialFile[];
}): React.JSX.Element {
  const { context, trial, title, files } = props;
  const { trans } = context;
  const [chosen, setChosen] = React.useState<number | null>(null);
  const id = React.useId();
  const last = files.length - 1;
  const at = Math.min(chosen ?? last, last);
  const file = files[at]!;
  return (
    <figure className="wb-File">
      <figcaption>
        <span className="wb-File-title">{title}</span>
        {file.step !== null && <span id={id}>{trans.__('step %1', file.step)}</span>}
        <a href={address(context, trial, file)} download={file.name.split('/').pop()}>
          {trans.__('Download (%1)', bytes(file.bytes))}
        </a>
      </figcaption>
      {files.length > 1 && (
        <input
          className="wb-File-slider"
          type="range"
          min={0}
          max={last}
          value={at}
          aria-label={trans.__('Step of %1', title)}
          aria-valuetext={trans.__('step %1', file.step ?? at)}
          onChange={({ target }) => setChosen(Number(target.value) === last ? null : Number(target.value))}
        />
      )}
      <Content context={context} trial={trial} file={file} />
    </figure>
  );
}

function Content(props: { context: IContext; trial: number; file: ITrialFile }): React.JSX.Element {
  const { context, trial, file } = props;
  switch (file.kind) {
    case 'image':
      return <img src={address(context, trial, file)} alt={file.name} />;
    case 'audio':
      return <audio controls src={address(context, trial, file)} aria-label={file.name} />;
    case 'figure':
      return <Figure {...props} />;
    case 'text':
      return file.bytes <= MOST_TEXT ? <Text {...props} /> : <></>;
    default:
      return <></>;
  }
}

function Text({ context, trial, file }: { context: IContext; trial: number; file: ITrialFile }): React.JSX.Element {
  const asked = useAsked(() => context.api.text(path(context, trial, file)), [trial, file.name]);
  return <pre className="wb-Code wb-File-text">{asked.value ?? asked.error?.message ?? '…'}</pre>;
}

/** A Plotly figure, drawn by Plotly: its JSON contains no code. */
function Figure({ context, trial, file }: { context: IContext; trial: number; file: ITrialFile }): React.JSX.Element {
  const box = React.useRef<HTMLDivElement>(null);
  const themed = useSignal(context.themeChanged);
  const [trouble, setTrouble] = React.useState<string | null>(null);
  React.useEffect(() => {
    let gone = false;
    const draw = async () => {
      const [plotly, figure] = await Promise.all([
        context.plotly(),
        context.api.get<{ data?: object[]; layout?: object }>(path(context, trial, file))
      ]);
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
  }, [trial, file.name, themed]);
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

function path({ experiment }: IContext, trial: number, file: ITrialFile): string {
  return experimentPath(experiment.ref, 'trials', trial, 'files', ...file.name.split('/'));
}

function address(context: IContext, trial: number, file: ITrialFile): string {
  return context.api.url(path(context, trial, file));
}
