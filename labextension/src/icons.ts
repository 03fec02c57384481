import { LabIcon } from '@jupyterlab/ui-components';

/** Ranks that exchange with each other. */
export const ranksIcon = new LabIcon({
  name: 'jupyter-ddl:ranks',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 24 24">
  <g class="jp-icon3" fill="#616161">
    <rect x="3" y="3" width="7" height="7" rx="1.5"/><rect x="14" y="3" width="7" height="7" rx="1.5"/>
    <rect x="3" y="14" width="7" height="7" rx="1.5"/><rect x="14" y="14" width="7" height="7" rx="1.5"/>
    <path d="M10 5.7h4v1.6h-4zM10 16.7h4v1.6h-4zM5.7 10h1.6v4H5.7zM16.7 10h1.6v4h-1.6z"/>
  </g>
</svg>`,
});
