/** A trial's output, followed as it grows. Text only. */

import * as React from 'react';

import { ILog, experimentPath } from '../server/api';
import { IContext } from '../experiment/context';
import { ITail, NOTHING, followed, preceded } from './tail';

/** Milliseconds between two queries while the trial trains. */
const INTERVAL = 1000;
/** Bytes in one answer. */
const LIMIT = 65536;
/** Within this distance from the end, in pixels, the view follows new output. */
const NEAR = 24;

export function TrialLog(props: { context: IContext; trial: number; ended: boolean }): React.JSX.Element {
  const { context, trial, ended } = props;
  const { api, experiment, trans } = context;
  const [tail, setTail] = React.useState<ITail>(NOTHING);
  const [follow, setFollow] = React.useState(true);
  const [trouble, setTrouble] = React.useState<string | null>(null);
  const box = React.useRef<HTMLPreElement>(null);
  const path = experimentPath(experiment.ref, 'trials', trial, 'log');
  const newest = React.useRef(NOTHING);

  React.useEffect(() => {
    let gone = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async () => {
      let more = false;
      // A hidden page fetches nothing.
      if (!document.hidden && experiment.watched) {
        try {
          const answer = await api.get<ILog>(path, { offset: newest.current.next, limit: LIMIT });
          if (gone) {
            return;
          }
          const next = followed(newest.current, answer);
          more = answer.text.length > 0 && answer.next < answer.size;
          const { text, line, start } = newest.current;
          if (next.text !== text || next.line !== line || next.start !== start) {
            setTail(next);
          }
          newest.current = next;
          setTrouble(null);
        } catch (error) {
          setTrouble(error instanceof Error ? error.message : String(error));
        }
      }
      if (!gone && (more || !ended)) {
        timer = setTimeout(() => void ask(), more ? 0 : INTERVAL);
      }
    };
    void ask();
    return () => {
      gone = true;
      clearTimeout(timer);
    };
    // eslint-disable-next-line react-hooks/exhaustive-deps -- the path identifies the log; visibility is read in each round
  }, [path, ended]);

  React.useLayoutEffect(() => {
    if (follow && box.current) {
      box.current.scrollTop = box.current.scrollHeight;
    }
  }, [tail, follow]);

  const earlier = async () => {
    const offset = Math.max(0, tail.start - LIMIT);
    const answer = await api.get<ILog>(path, { offset, limit: tail.start - offset });
    newest.current = preceded(newest.current, answer);
    setTail(newest.current);
  };
  const isEmpty = tail.text === '' && tail.line === '';
  return (
    <div className="wb-Log">
      <div className="wb-Log-bar">
        <label>
          <input type="checkbox" checked={follow} onChange={({ target }) => setFollow(target.checked)} />
          {trans.__('Follow')}
        </label>
        {tail.start > 0 && (
          <button
            type="button"
            className="wb-Button"
            onClick={() => {
              setFollow(false);
              void earlier();
            }}
          >
            {trans.__('Earlier')}
          </button>
        )}
        {trouble && <span role="status">{trouble}</span>}
      </div>
      <pre
        className="wb-Log-text"
        ref={box}
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label={trans.__('Log')}
        onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
          const near = scrollHeight - clientHeight - scrollTop < NEAR;
          if (near !== follow) {
            setFollow(near);
          }
        }}
      >
        {isEmpty ? <em>{trans.__('Nothing was printed.')}</em> : tail.text + tail.line}
      </pre>
    </div>
  );
}
