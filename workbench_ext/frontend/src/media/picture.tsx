/** Pictures as thumbnails, each of which opens in full size. Law: an image is only ever the source of an `<img>`, where
 * nothing in it runs. */

import * as React from 'react';

import { ITrialFile } from '../server/api';
import { bytes } from '../words';
import { ISource, addressOf } from './source';

/** An image of fewer pixels is enlarged without being blurred. */
const SMALL = 128;

export function Picture(props: {
  source: ISource;
  file: ITrialFile;
  caption: string;
  /** What it shows, for readers of the screen. */
  words: string;
}): React.JSX.Element {
  const { source, file, caption, words } = props;
  const { trans } = source.context;
  const dialog = React.useRef<HTMLDialogElement>(null);
  const [small, setSmall] = React.useState(false);
  const image = (
    <img
      src={addressOf(source, file)}
      alt={caption ? `${words}: ${caption}` : words}
      loading="lazy"
      className={small ? 'wb-mod-small' : ''}
      onLoad={({ currentTarget: { naturalWidth, naturalHeight } }) =>
        setSmall(Math.max(naturalWidth, naturalHeight) < SMALL)
      }
    />
  );
  return (
    <figure className="wb-Picture">
      <button
        type="button"
        className="wb-Picture-thumb"
        title={trans.__('Enlarge')}
        onClick={() => dialog.current?.showModal()}
      >
        {image}
      </button>
      {caption && <figcaption title={caption}>{caption}</figcaption>}
      <dialog ref={dialog} className="wb-Picture-whole" aria-label={words}>
        <header>
          <span>
            {words}
            {caption && `: ${caption}`}
          </span>
          <a className="wb-File-download" href={addressOf(source, file)} download={file.name.split('/').pop()}>
            {trans.__('Download (%1)', bytes(file.bytes))}
          </a>
          <button type="button" className="wb-Button" onClick={() => dialog.current?.close()}>
            {trans.__('Close')}
          </button>
        </header>
        {image}
      </dialog>
    </figure>
  );
}
