/** What colours mean. */

import * as React from 'react';

import { Legend } from '../parameters/colouring';
import { shown } from '../numbers';

export function LegendBar({ legend }: { legend: Legend }): React.JSX.Element {
  if (legend.kind === 'names') {
    return (
      <ul className="wb-Legend" aria-label={legend.label}>
        <li className="wb-Legend-label">{legend.label}</li>
        {legend.names.map(([name, colour]) => (
          <li key={name}>
            <span className="wb-Legend-mark" style={{ background: colour }} aria-hidden="true" />
            {name}
          </li>
        ))}
      </ul>
    );
  }
  return (
    <div className="wb-Legend">
      <span className="wb-Legend-label">{legend.label}</span>
      <span>{shown(legend.low)}</span>
      <span
        className="wb-Legend-bar"
        style={{ backgroundImage: `linear-gradient(to right, ${legend.colours.join(', ')})` }}
        aria-hidden="true"
      />
      <span>{shown(legend.high)}</span>
    </div>
  );
}
