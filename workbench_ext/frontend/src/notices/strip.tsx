/** The strip of notices above the status bar. It takes its height from the page, and so covers nothing. */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ReactWidget } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { closeIcon } from '@jupyterlab/ui-components';
import React, { useLayoutEffect, useRef } from 'react';

import { useSignal, useSize } from '../hooks';
import { Board, IShown } from './board';
import { dismiss, showOn } from '.';
import { IWorkbench } from '../tokens';

const SIGNS: Readonly<Record<IShown['kind'], string>> = { success: '✓', info: 'ℹ', warning: '!', error: '✗' };

interface IStripProps {
  readonly board: Board;
  readonly trans: TranslationBundle;
  /** Called with the height in pixels that the notices need; 0 where there is none. */
  readonly fit: (height: number) => void;
}

export function StripView({ board, trans, fit }: IStripProps): JSX.Element {
  useSignal(board.changed);
  const ref = useRef<HTMLDivElement>(null);
  const { height } = useSize(ref);
  const { shown } = board;
  const needed = shown.length > 0 ? Math.ceil(height) : 0;
  useLayoutEffect(() => fit(needed), [fit, needed]);
  const hold = (isHeld: boolean) => () => {
    board.isHeld = isHeld;
  };
  return (
    <div ref={ref} onMouseEnter={hold(true)} onMouseLeave={hold(false)} onFocus={hold(true)} onBlur={hold(false)}>
      {shown.map(({ id, kind, message, actions }) => (
        <div key={id} className={`wb-Notice wb-mod-${kind}`} role={kind === 'error' ? 'alert' : 'status'}>
          <span aria-hidden>{SIGNS[kind]}</span>
          <span className="wb-Notice-words">{message}</span>
          {actions.map(({ label, caption, callback }) => (
            <button
              key={label}
              className="wb-Button"
              title={caption}
              onClick={event => {
                callback(event.nativeEvent);
                board.drop(id);
              }}
            >
              {label}
            </button>
          ))}
          <button
            className="wb-Notice-close"
            title={trans.__('Dismiss')}
            aria-label={trans.__('Dismiss')}
            onClick={() => dismiss(id)}
          >
            <closeIcon.react tag="span" width="12px" />
          </button>
        </div>
      ))}
    </div>
  );
}

class Strip extends ReactWidget {
  constructor(
    private readonly _board: Board,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.id = 'workbench-notices';
    this.addClass('wb-Notices');
  }

  protected render(): JSX.Element {
    return <StripView board={this._board} trans={this._trans} fit={this._fit} />;
  }

  private _fit = (height: number): void => {
    this.node.style.minHeight = this.node.style.maxHeight = `${height}px`;
    this.parent?.fit();
  };
}

export const notices: JupyterFrontEndPlugin<void> = {
  id: 'workbench-ext:notices',
  description: 'Shows what Workbench tells above the status bar, where it covers nothing',
  autoStart: true,
  requires: [IWorkbench],
  activate: (app: JupyterFrontEnd, { trans }: IWorkbench) => {
    // After the status bar, so that it is above it. Not awaited: the page is restored when all plugins are there.
    void app.restored.then(() => {
      const board = new Board();
      try {
        app.shell.add(new Strip(board, trans), 'bottom');
      } catch {
        return; // Jupyter Notebook's page has no such area.
      }
      showOn(board);
    });
  }
};
