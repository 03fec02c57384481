// How each of several runs is drawn: a colour, and beyond as many as there are, another dash. Validation is always dashed.
import type { Look } from '../model/curve_svg';
import type { Palette } from './theme';

/** Of each round through the colours. */
const DASHES: readonly Look['dashes'][] = [
  { training: [], validation: [6, 4] },
  { training: [11, 3, 2, 3], validation: [4, 3, 1, 3] },
  { training: [2, 3], validation: [1, 5] },
];

export function looksOf({ lines }: Palette, count: number): Look[] {
  return Array.from({ length: count }, (_, at) => ({
    colour: lines[at % lines.length]!,
    dashes: DASHES[Math.floor(at / lines.length) % DASHES.length]!,
  }));
}

const SVG = 'http://www.w3.org/2000/svg';

/** Return a short piece of a run's line. */
export function sample(look: Look, split: keyof Look['dashes']): SVGSVGElement {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('class', 'ddl-line-sample');
  svg.setAttribute('viewBox', '0 0 24 8');
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS(SVG, 'path');
  path.setAttribute('d', 'M0 4H24');
  path.setAttribute('stroke', look.colour);
  path.setAttribute('stroke-width', split === 'training' ? '2.4' : '1.8');
  path.setAttribute('stroke-dasharray', look.dashes[split].join(' '));
  svg.append(path);
  return svg;
}
