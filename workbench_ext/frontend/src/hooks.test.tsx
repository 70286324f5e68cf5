import { Signal } from '@lumino/signaling';
import * as React from 'react';
import { createRoot } from 'react-dom/client';

import { useSignal } from './hooks';

declare const globalThis: { IS_REACT_ACT_ENVIRONMENT: boolean };

test('what is emitted between a rendering and its effects is rendered', () => {
  globalThis.IS_REACT_ACT_ENVIRONMENT = true;
  const model = { rows: 0 };
  const changed = new Signal<typeof model, void>(model);
  const Answer = () => {
    React.useEffect(() => {
      model.rows = 3;
      changed.emit();
    }, []);
    return null;
  };
  const Table = () => {
    useSignal(changed);
    return (
      <p>
        {model.rows}
        <Answer />
      </p>
    );
  };
  const host = document.createElement('div');
  const root = createRoot(host);
  React.act(() => root.render(<Table />));
  expect(host.textContent).toBe('3');
  React.act(() => root.unmount());
});
