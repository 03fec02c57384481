import { LabIcon } from '@jupyterlab/ui-components';

/** @param drawing markup, in a square of 24. */
function icon(name: string, drawing: string): LabIcon {
  const svgstr = `<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 24 24"><g class="jp-icon3" fill="#616161">${drawing}</g></svg>`;
  return new LabIcon({ name: `jupyter-ddl:${name}`, svgstr });
}

const square = (x: number, y: number): string => `<rect x="${x}" y="${y}" width="7" height="7" rx="1.5"/>`;

/** Ranks that exchange with each other. */
export const ranksIcon = icon(
  'ranks',
  `${square(3, 3)}${square(14, 3)}${square(3, 14)}${square(14, 14)}<path d="M10 5.7h4v1.6h-4zM10 16.7h4v1.6h-4zM5.7 10h1.6v4H5.7zM16.7 10h1.6v4h-1.6z"/>`,
);

/** Figures beside each other. */
export const compareIcon = icon('compare', '<path d="M3 3h2v16h16v2H3zM7 12h3v5H7zM12 8h3v9h-3zM17 5h3v12h-3z"/>');
