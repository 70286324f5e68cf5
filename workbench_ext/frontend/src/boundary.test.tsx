import * as React from 'react';
import { createRoot } from 'react-dom/client';

import { Boundary } from './boundary';
import { IExperiment } from './server/api';
import { Row } from './sidebar/row';

jest.mock('@jupyterlab/coreutils', () => ({}));
jest.mock('@jupyterlab/services', () => ({}));

declare const globalThis: { IS_REACT_ACT_ENVIRONMENT: boolean };
globalThis.IS_REACT_ACT_ENVIRONMENT = true;

const filled = (text: string, ...given: unknown[]) =>
  text.replace(/%(\d)/g, (_, place: string) => String(given[Number(place) - 1]));
const trans = { __: filled, _n: (_: string, many: string, ...given: unknown[]) => filled(many, ...given) } as never;

let host: HTMLElement;
let root: ReturnType<typeof createRoot>;

beforeEach(() => {
  // React writes each error to the console.
  jest.spyOn(console, 'error').mockImplementation(() => undefined);
  host = document.createElement('div');
  root = createRoot(host);
});

afterEach(() => {
  React.act(() => root.unmount());
  jest.restoreAllMocks();
});

const draw = (what: React.ReactNode) => React.act(() => root.render(what));

test('a row with an object in place of a text leaves the others, and is drawn again when it is mended', () => {
  const whole = {
    ...{ id: 'a', label: 'digits@1', state: 'completed', created: '2026-01-01T00:00:00+00:00', goal: null, best: null },
    ...{ progress: null, counts: {}, trials: { ended: 0, begun: 0, planned: 0, of: 0 }, outcome: [], troubles: [] }
  } as unknown as IExperiment;
  const damaged = { ...whole, label: 'digits@2', note: { text: 'a' } } as unknown as IExperiment;
  const rows = (...all: IExperiment[]) =>
    all.map((row, at) => (
      <Boundary key={at} what={row.label} trans={trans} of={row}>
        <Row experiment={row} trans={trans} minute={0} />
      </Boundary>
    ));
  draw(rows(whole, damaged));
  expect(host.textContent).toMatch(/digits@1.*digits@2 cannot be shown\.Try Again$/);
  expect(host.querySelector('.wb-Broken')!.getAttribute('title')).toContain('Objects are not valid');
  draw(rows(whole, { ...damaged, note: 'mended' }));
  expect(host.textContent).toContain('mended');
  expect(host.textContent).not.toContain('cannot be shown');
});

test('a person can try again, which does nothing else', () => {
  let isBroken = true;
  const Part = () => {
    if (isBroken) {
      throw new Error('why');
    }
    return <p>drawn</p>;
  };
  const around = jest.fn();
  document.body.append(host);
  draw(
    <div onClick={around}>
      <Boundary what="The header" trans={trans}>
        <Part />
      </Boundary>
      <p>beside</p>
    </div>
  );
  expect(host.textContent).toBe('The header cannot be shown.Try Againbeside');
  const again = () => React.act(() => host.querySelector('button')!.click());
  again();
  expect(host.textContent).toContain('cannot be shown');
  isBroken = false;
  again();
  expect(host.textContent).toBe('drawnbeside');
  expect(around).not.toHaveBeenCalled();
  host.remove();
});
