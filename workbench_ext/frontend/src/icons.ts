/** Our icons, in the colours of the theme. */

import { LabIcon } from '@jupyterlab/ui-components';

/** A ladder of rungs: few of many go on. */
export const experimentsIcon = new LabIcon({
  name: 'workbench:experiments',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 16 16">
    <g class="jp-icon3" fill="#616161">
      <rect x="2" y="12" width="12" height="2" rx="1"/>
      <rect x="4" y="7" width="8" height="2" rx="1"/>
      <rect x="6" y="2" width="4" height="2" rx="1"/>
    </g>
  </svg>`
});
