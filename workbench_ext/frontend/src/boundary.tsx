/** Keeps a part of a page that cannot be drawn from taking everything around it away. */

import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

interface IProps {
  /** What the part is, as a sentence begins: `The header`. */
  readonly what: string;
  readonly trans: TranslationBundle;
  /** When this is another one, drawing is tried again. */
  readonly of?: unknown;
  readonly children: React.ReactNode;
}

interface IState {
  /** Why the part could not be drawn; null while it can. */
  readonly failed: string | null;
  readonly of: unknown;
}

export class Boundary extends React.Component<IProps, IState> {
  state: IState = { failed: null, of: this.props.of };

  static getDerivedStateFromError(error: unknown): Partial<IState> {
    return { failed: error instanceof Error ? error.message : String(error) };
  }

  static getDerivedStateFromProps({ of }: IProps, state: IState): Partial<IState> | null {
    return of === state.of ? null : { failed: null, of };
  }

  render(): React.ReactNode {
    const { what, trans, children } = this.props;
    const { failed } = this.state;
    if (failed === null) {
      return children;
    }
    return (
      // The error itself only on demand: React's own ones are addresses of many lines.
      <div className="wb-Broken" role="status" title={failed}>
        {trans.__('%1 cannot be shown.', what)}
        <button type="button" className="wb-Button" onClick={this._again}>
          {trans.__('Try Again')}
        </button>
      </div>
    );
  }

  private _again = (event: React.MouseEvent): void => {
    event.stopPropagation(); // a row around it would open its page
    this.setState({ failed: null });
  };
}
