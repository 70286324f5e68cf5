/** A part of the sidebar that folds. Folded parts fetch nothing. */

import * as React from 'react';

import { Followed } from '../stores/resources';

export function Section(props: {
  title: string;
  /** Text beside the title, also while folded. */
  summary: string;
  open: boolean;
  onToggle: (open: boolean) => void;
  children: React.ReactNode;
}): React.JSX.Element {
  const id = React.useId();
  return (
    <section className="wb-Section" aria-labelledby={`${id}-title`}>
      <h3 className="wb-Section-head">
        <button
          type="button"
          className="wb-Section-toggle"
          aria-expanded={props.open}
          aria-controls={`${id}-body`}
          onClick={() => props.onToggle(!props.open)}
        >
          <span className="wb-Section-caret" aria-hidden="true" />
          <span id={`${id}-title`}>{props.title}</span>
          <span className="wb-Section-summary">{props.summary}</span>
        </button>
      </h3>
      <div id={`${id}-body`} className="wb-Section-body" hidden={!props.open}>
        {props.open && props.children}
      </div>
    </section>
  );
}

/** One kind of a bar's whole: its length is `share`, 0 to 1. */
export interface IPart {
  readonly kind: 'used' | 'others';
  readonly share: number;
}

/** A bar for usage; the text beside it says the same. */
export function Bar({ parts }: { parts: readonly IPart[] }): React.JSX.Element {
  return (
    <div className="wb-Meter-bar" aria-hidden="true">
      {parts.map(({ kind, share }) => (
        <span
          key={kind}
          className={`wb-Meter-part wb-mod-${kind}`}
          style={{ width: `${100 * Math.min(1, Math.max(0, share))}%` }}
        />
      ))}
    </div>
  );
}

/** Keep something updated while this is on the screen. */
export function useFollowed<T>(followed: Followed<T>, shown: boolean): void {
  React.useEffect(() => {
    followed.watched = shown;
    return () => {
      followed.watched = false;
    };
  }, [followed, shown]);
}
