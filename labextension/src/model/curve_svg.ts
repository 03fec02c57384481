// Charts as a picture of lines, for a paper or a mail. No DOM: the text is the picture.
import type { Range } from './curve_view';
import { type ChartLine, type MetricChart, valueRange } from './metric_charts';
import { logTicksOf, ticksOf } from './ticks';

/** How a run is drawn, in training and in validation. */
export interface Look {
  readonly colour: string;
  readonly dashes: Readonly<Record<ChartLine['split'], readonly number[]>>;
}

export interface Drawing {
  readonly charts: readonly MetricChart[];
  readonly names: readonly string[];
  readonly looks: readonly Look[];
  readonly range: Range;
  readonly isLog: boolean;
  readonly isSmoothed: boolean;
  /** What the axis of places is. */
  readonly axis: string;
  readonly training: string;
  readonly validation: string;
  readonly colours: { readonly text: string; readonly faint: string; readonly grid: string; readonly background: string };
  readonly place: (value: number) => string;
  readonly value: (value: number) => string;
}

export interface Picture {
  readonly svg: string;
  readonly width: number;
  readonly height: number;
}

const WIDTH = 460;
const HEIGHT = 250;
const INNER = { left: 56, right: 14, top: 26, bottom: 36 } as const;
const MARGIN = 12;
const LEGEND_ROW = 17;
const FONT = 'font-family="system-ui, -apple-system, sans-serif" font-size="11"';

/** What XML cannot hold is left out: control characters and halves of a pair. Source: XML 1.0, section 2.2. */
const NO_XML = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

export function escaped(text: string): string {
  return text.replace(NO_XML, '').replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

/** Return all charts in one picture, below the names of the runs with their lines. */
export function svgOf(drawing: Drawing): Picture {
  const { charts, names, colours } = drawing;
  const columns = charts.length > 1 ? 2 : 1;
  const width = 2 * MARGIN + columns * WIDTH;
  const top = 2 * MARGIN + (names.length + 1) * LEGEND_ROW;
  const height = top + Math.ceil(charts.length / columns) * HEIGHT + MARGIN;
  const drawn = charts.map((chart, at) => {
    const [x, y] = [MARGIN + (at % columns) * WIDTH, top + Math.floor(at / columns) * HEIGHT];
    return `<g transform="translate(${x} ${y})">${chartOf(chart, drawing, at)}</g>`;
  });
  const svg = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ${FONT}>`,
    `<title>${escaped(names.join(', '))}</title>`,
    `<rect width="${width}" height="${height}" fill="${escaped(colours.background)}"/>`,
    legendOf(drawing),
    ...drawn,
    '</svg>\n',
  ].join('\n');
  return { svg, width, height };
}

function legendOf({ names, looks, colours, training, validation }: Drawing): string {
  const line = (x: number, y: number, { colour, dashes }: Look, split: ChartLine['split']): string =>
    `<path d="M${x} ${y}h26" fill="none" stroke="${escaped(colour)}" stroke-width="${widthOf(split)}"${dashOf(dashes[split])}/>`;
  const text = (x: number, y: number, what: string, colour: string): string => `<text x="${x}" y="${y + 4}" fill="${escaped(colour)}">${escaped(what)}</text>`;
  const head = MARGIN + LEGEND_ROW / 2;
  const rows = names.map((name, at) => {
    const y = head + (at + 1) * LEGEND_ROW;
    return line(MARGIN, y, looks[at]!, 'training') + line(MARGIN + 70, y, looks[at]!, 'validation') + text(MARGIN + 140, y, name, colours.text);
  });
  return [text(MARGIN, head, training, colours.faint), text(MARGIN + 70, head, validation, colours.faint), ...rows].join('\n');
}

function chartOf(chart: MetricChart, drawing: Drawing, at: number): string {
  const { range, isLog, isSmoothed, colours, looks } = drawing;
  const isIn = chart.places.map((place) => place >= range[0] && place <= range[1]);
  const inSight = (isSmoothed ? [...chart.values, ...chart.raw] : chart.values).flatMap((values) => values.filter((_, bin) => isIn[bin]));
  const [low, high] = valueRange(chart.metric, inSight, isLog);
  const [right, bottom] = [WIDTH - INNER.right, HEIGHT - INNER.bottom];
  const span = range[1] - range[0] || 1;
  const x = (place: number): number => INNER.left + ((place - range[0]) / span) * (right - INNER.left);
  const share = isLog ? (value: number) => Math.log(value / low) / Math.log(high / low) : (value: number) => (value - low) / (high - low);
  const y = (value: number): number => bottom - share(value) * (bottom - INNER.top);
  const path = (line: ChartLine, values: readonly (number | null)[], more: string): string => {
    const points = line.places.length === 0 ? [] : Array.from(line.places, (place, bin) => [place, values[bin] ?? null] as const);
    const kept = points.filter((one): one is readonly [number, number] => one[1] !== null && (!isLog || one[1] > 0));
    const { colour, dashes } = looks[line.run]!;
    const d = kept.map(([place, value], index) => `${index === 0 ? 'M' : 'L'}${round(x(place))} ${round(y(value))}`).join('');
    // A line of one point is a dot.
    const whole = kept.length === 1 ? `${d}h0` : d;
    return `<path d="${whole}" fill="none" stroke="${escaped(colour)}" stroke-width="${widthOf(line.split)}" stroke-linejoin="round" stroke-linecap="round"${dashOf(dashes[line.split])}${more}/>`;
  };
  const clip = `clip-${at}`;
  const lines = [
    ...(isSmoothed ? chart.lines.map((line) => path(line, line.raw, ' opacity="0.3"')) : []),
    ...chart.lines.map((line) => path(line, line.values, '')),
  ];
  return [
    `<clipPath id="${clip}"><rect x="${INNER.left}" y="${INNER.top}" width="${right - INNER.left}" height="${bottom - INNER.top}"/></clipPath>`,
    `<text x="${INNER.left}" y="14" font-weight="600" fill="${escaped(colours.text)}">${escaped(chart.metric)}</text>`,
    axesOf(drawing, [low, high], x, y),
    `<g clip-path="url(#${clip})">${lines.join('\n')}</g>`,
  ].join('\n');
}

function axesOf(
  { range, isLog, axis, colours, place, value }: Drawing,
  [low, high]: Range,
  x: (value: number) => number,
  y: (value: number) => number,
): string {
  const [right, bottom] = [WIDTH - INNER.right, HEIGHT - INNER.bottom];
  const text = (at: readonly [number, number], anchor: string, what: string): string =>
    `<text x="${round(at[0])}" y="${round(at[1])}" text-anchor="${anchor}" fill="${escaped(colours.faint)}">${escaped(what)}</text>`;
  const line = (d: string): string => `<path d="${d}" stroke="${escaped(colours.grid)}" fill="none"/>`;
  const ofPlaces = ticksOf(range[0], range[1], 6).map(
    (tick) => line(`M${round(x(tick))} ${INNER.top}V${bottom}`) + text([x(tick), bottom + 14], 'middle', place(tick)),
  );
  const ofValues = (isLog ? logTicksOf(low, high) : ticksOf(low, high, 5)).map(
    (tick) => line(`M${INNER.left} ${round(y(tick))}H${right}`) + text([INNER.left - 6, y(tick) + 4], 'end', value(tick)),
  );
  return [...ofPlaces, ...ofValues, text([(INNER.left + right) / 2, HEIGHT - 8], 'middle', axis)].join('\n');
}

const widthOf = (split: ChartLine['split']): number => (split === 'training' ? 1.8 : 1.4);
const dashOf = (dash: readonly number[]): string => (dash.length === 0 ? '' : ` stroke-dasharray="${dash.join(' ')}"`);
const round = (value: number): number => Number(value.toFixed(2));
