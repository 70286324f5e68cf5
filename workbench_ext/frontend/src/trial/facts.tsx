/** Plain data for people: names beside values. Texts are never markup. */

import * as React from 'react';

import { said } from '../ladder/words';

/** `data` as a list of names and values, without empty ones. */
export function Facts({ data }: { data: Readonly<Record<string, unknown>> }): React.JSX.Element {
  const pairs = Object.entries(data).filter(([, value]) => !isEmpty(value));
  return (
    <dl className="wb-Facts">
      {pairs.map(([name, value]) => (
        <React.Fragment key={name}>
          <dt>{name}</dt>
          <dd>
            <Value value={value} />
          </dd>
        </React.Fragment>
      ))}
    </dl>
  );
}

/** A value: lists separated by commas, objects as nested facts. */
export function Value({ value }: { value: unknown }): React.JSX.Element {
  if (value === null || value === undefined) {
    return <>–</>;
  }
  if (isList(value)) {
    return value.every(one => typeof one !== 'object' || one === null) ? (
      <>{value.map(said).join(', ')}</>
    ) : (
      <>
        {value.map((one, at) => (
          <div key={at}>
            <Value value={one} />
          </div>
        ))}
      </>
    );
  }
  if (typeof value === 'object') {
    const entries = Object.entries(value as Record<string, unknown>);
    return entries.every(([, one]) => typeof one !== 'object' || one === null) ? (
      <>{entries.map(([name, one]) => `${name} ${said(one)}`).join(' · ')}</>
    ) : (
      <Facts data={value as Record<string, unknown>} />
    );
  }
  return <>{said(value)}</>;
}

function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value);
}

export function isEmpty(value: unknown): boolean {
  return (
    value === null ||
    value === undefined ||
    value === '' ||
    (Array.isArray(value) && value.length === 0) ||
    (typeof value === 'object' && Object.keys(value).length === 0)
  );
}
