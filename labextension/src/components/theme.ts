// The colours of charts, which a canvas cannot take from the style sheet by itself.

export interface Palette {
  readonly isDark: boolean;
  readonly text: string;
  readonly faint: string;
  readonly grid: string;
  readonly background: string;
  readonly compute: string;
  readonly exchange: string;
  readonly input: string;
  /** Lines of a chart, in their order. */
  readonly lines: readonly string[];
  readonly states: Readonly<Record<string, string>>;
}

/** Read the colours where an element stands; the style sheet has them for light and dark. */
export function readPalette(element: Element): Palette {
  const style = getComputedStyle(element);
  const of = (name: string): string => style.getPropertyValue(`--ddl-${name}`).trim();
  const states = ['waiting', 'running', 'training', 'straggler', 'finished', 'failed', 'released', 'lost'];
  return {
    isDark: of('is-dark') === '1',
    text: of('text'),
    faint: of('faint'),
    grid: of('grid'),
    background: of('background'),
    compute: of('compute'),
    exchange: of('exchange'),
    input: of('input'),
    lines: [1, 2, 3, 4, 5, 6, 7].map((at) => of(`line-${at}`)),
    states: Object.fromEntries(states.map((state) => [state, of(`state-${state}`)])),
  };
}

/** Say on the element whether JupyterLab's theme is dark, and call back when it changes. */
export function followTheme(element: HTMLElement, changed: () => void): () => void {
  const apply = (): void => {
    const light = document.body.dataset['jpThemeLight'];
    const isDark =
      light === undefined ? window.matchMedia('(prefers-color-scheme: dark)').matches : light === 'false';
    element.classList.toggle('ddl-dark', isDark);
    changed();
  };
  const observer = new MutationObserver(apply);
  observer.observe(document.body, { attributes: true, attributeFilter: ['data-jp-theme-light', 'data-jp-theme-name'] });
  apply();
  return () => observer.disconnect();
}

// Cividis, which the colour-blind see as everybody: Nuñez et al. 2018, doi 10.1371/journal.pone.0199239.
const CIVIDIS: readonly (readonly [number, number, number])[] = [
  [0, 34, 78],
  [18, 53, 112],
  [59, 73, 108],
  [87, 93, 109],
  [112, 113, 115],
  [138, 134, 120],
  [165, 156, 116],
  [195, 179, 105],
  [225, 204, 85],
  [254, 232, 56],
];

// Made once: a thousand ranks ask for a thousand colours each second.
const SHADES = 63;
const SCALE: readonly string[] = Array.from({ length: SHADES + 1 }, (_, at) => shade(at / SHADES));

/** Return the colour of a share from 0 to 1. */
export function scaleColour(share: number): string {
  return SCALE[Math.round(Math.min(1, Math.max(0, share)) * SHADES)]!;
}

function shade(share: number): string {
  const place = share * (CIVIDIS.length - 1);
  const low = CIVIDIS[Math.floor(place)]!;
  const high = CIVIDIS[Math.ceil(place)]!;
  const part = place - Math.floor(place);
  return `rgb(${low.map((value, at) => Math.round(value + (high[at]! - value) * part)).join(',')})`;
}
