/** What was logged under one name in one step. */

import * as React from 'react';

import { ITrialFile } from '../server/api';
import { bytes } from '../words';
import { PlotlyFigure } from './figure';
import { Histogram } from './histogram';
import { IStep, captionOf } from './media';
import { Picture } from './picture';
import { Rows } from './rows';
import { ISource, addressOf, useJson, useText } from './source';

/** Maximum bytes of a text that is shown here; a longer one is downloaded. */
const MOST_TEXT = 200_000;

export function Content(props: { source: ISource; name: string; at: IStep }): React.JSX.Element {
  const { source, name, at } = props;
  const captions = useJson(source, at.captions);
  return (
    <div className={`wb-Content${at.files.length > 1 ? ' wb-mod-several' : ''}`}>
      {at.files.map(file => (
        // By number, not by step: moving the slider changes what is shown, and keeps a table's order and an open picture.
        <One
          key={`${file.kind} ${file.number}`}
          source={source}
          file={file}
          caption={captionOf(captions.value, file)}
          words={wordsOf(source, name, file)}
        />
      ))}
    </div>
  );
}

function wordsOf({ context: { trans } }: ISource, name: string, file: ITrialFile): string {
  const one = file.number === null ? name : `${name} ${file.number}`;
  return file.step === null ? one : trans.__('%1, step %2', one, file.step);
}

function One(props: { source: ISource; file: ITrialFile; caption: string; words: string }): React.JSX.Element | null {
  const { source, file, caption, words } = props;
  switch (file.kind) {
    case 'image':
      return <Picture {...props} />;
    case 'audio':
      return (
        <figure className="wb-Sound">
          <audio controls preload="metadata" src={addressOf(source, file)} aria-label={words} />
          {caption && <figcaption>{caption}</figcaption>}
        </figure>
      );
    case 'figure':
      return <PlotlyFigure source={source} file={file} />;
    case 'histogram':
      return <Histogram source={source} file={file} words={words} />;
    case 'table':
      return <Rows source={source} file={file} words={words} />;
    case 'text':
      return file.bytes <= MOST_TEXT ? <Text source={source} file={file} /> : null;
    default:
      return null;
  }
}

function Text({ source, file }: { source: ISource; file: ITrialFile }): React.JSX.Element {
  const asked = useText(source, file);
  return <pre className="wb-Code wb-File-text">{asked.value ?? asked.error?.message ?? '…'}</pre>;
}

/** A link to save the step's file. Of several pictures each has its own, where it is shown in full size. */
export function Download({ source, at }: { source: ISource; at: IStep }): React.JSX.Element | null {
  const { trans } = source.context;
  const file = at.files[0]!;
  return at.files.length > 1 ? null : (
    <a className="wb-File-download" href={addressOf(source, file)} download={file.name.split('/').pop()}>
      {trans.__('Download (%1)', bytes(file.bytes))}
    </a>
  );
}
