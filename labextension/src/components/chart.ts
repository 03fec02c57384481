// A titled uPlot chart with a legend of ours, which a screen reader can read.
import uPlot from 'uplot';
import { FAR } from '../model/series';
import { h, setHidden, setText } from './dom';
import { compact } from './format';
import type { Palette } from './theme';

export type Column = readonly (number | null)[];

export interface Line {
  readonly label: string;
  readonly values: Column;
  readonly colour: string;
  readonly axis?: 'left' | 'right';
  readonly width?: number;
  readonly dash?: readonly number[];
  /** Filled down to the line before it, or to the bottom if it is the first. */
  readonly fill?: string;
  /** Not in the legend. */
  readonly isQuiet?: boolean;
  /** Its value is in the legend only under the pointer. */
  readonly isBare?: boolean;
  /** What the legend shows, where that is not what is drawn. */
  readonly legend?: Column;
  /** What the legend shows where nothing is under the pointer: default its newest value. */
  readonly summary?: number | null;
}

export interface ChartData {
  readonly title: string;
  readonly places: ArrayLike<number>;
  readonly lines: readonly Line[];
  readonly empty: string;
  readonly place: (value: number) => string;
  readonly value?: (value: number) => string;
  /** What stands at the axes, where that is shorter than a value. */
  readonly axis?: (value: number) => string;
  readonly rightValue?: (value: number) => string;
  /** The greatest value that the left axis shows at least. */
  readonly atLeast?: number;
  readonly atLeastRight?: number;
  /** The greatest value that the left axis shows, where it has one: what is above it is cut. */
  readonly atMost?: number | null;
  /** Whether the axes begin at zero even where all values are far above it; default true. */
  readonly fromZero?: boolean;
  readonly bands?: readonly (readonly [number, number, string])[];
}

const HEIGHT = 150;

export class Chart {
  readonly element: HTMLElement;
  private readonly title = h('h3', { class: 'ddl-chart-title' });
  private readonly legend = h('ul', { class: 'ddl-legend' });
  private readonly canvas = h('div', { class: 'ddl-canvas', role: 'img' });
  private readonly empty = h('p', { class: 'ddl-empty' });
  private plot: uPlot | null = null;
  private shape = '';
  /** Of each value in the legend, in characters. */
  private readonly widths: number[] = [];
  private width = 0;
  private data: ChartData | null = null;
  private palette: Palette | null = null;

  constructor() {
    this.element = h('figure', { class: 'ddl-chart' }, this.title, this.legend, this.canvas, this.empty);
  }

  resize(): void {
    const width = Math.floor(this.canvas.clientWidth);
    if (width > 0 && width !== this.width) {
      this.width = width;
      this.plot?.setSize({ width, height: HEIGHT });
    }
  }

  update(data: ChartData, palette: Palette): void {
    this.data = data;
    setText(this.title, data.title);
    const hasData = data.places.length > 1 && data.lines.some((line) => line.values.some((value) => value !== null));
    setHidden(this.canvas, !hasData);
    setHidden(this.empty, hasData);
    if (!hasData) {
      setText(this.empty, data.empty);
      return;
    }
    if (this.width === 0) {
      this.width = Math.max(120, Math.floor(this.canvas.clientWidth));
    }
    // uPlot is rebuilt only when its lines or colours change.
    const shape = data.lines.map((line) => `${line.label} ${line.axis ?? ''} ${line.colour}`).join('|');
    if (this.plot === null || this.shape !== shape || this.palette !== palette) {
      this.plot?.destroy();
      this.shape = shape;
      this.palette = palette;
      this.plot = new uPlot(this.options(data, palette), this.columns(data), this.canvas);
      this.drawLegend(data);
    } else {
      this.plot.setData(this.columns(data));
    }
    this.describe(data);
  }

  destroy(): void {
    this.plot?.destroy();
    this.plot = null;
  }

  private columns(data: ChartData): uPlot.AlignedData {
    // What is beyond every axis has no place in a chart: uPlot would look for its ticks for ever.
    const drawn = (value: number | null): number | null => (value !== null && Math.abs(value) < FAR ? value : null);
    return [Array.from(data.places), ...data.lines.map((line) => line.values.map(drawn))];
  }

  private drawLegend(data: ChartData): void {
    this.widths.length = 0;
    const named = data.lines.filter((line) => line.isQuiet !== true);
    this.legend.replaceChildren(
      ...named.map((line) => {
        const swatch = h('span', { class: 'ddl-swatch', 'aria-hidden': 'true' });
        swatch.style.background = line.fill ?? line.colour;
        const value = h('span', { class: 'ddl-legend-value' });
        return h('li', {}, swatch, line.label, value);
      }),
    );
  }

  /** Put the newest values into the legend and the picture's description, or those under the pointer. */
  private describe(data: ChartData, index: number | null = null): void {
    const named = data.lines.filter((line) => line.isQuiet !== true);
    const summaries = named.map((line, at) => {
      const values = line.legend ?? line.values;
      const newest = line.summary === undefined ? lastOf(values) : line.summary;
      const value = index !== null ? (values[index] ?? null) : line.isBare === true ? null : newest;
      const form = (line.axis === 'right' ? data.rightValue : data.value) ?? compact;
      const text = value === null ? '' : form(value);
      const item = this.legend.children[at]?.lastElementChild;
      if (item instanceof HTMLElement) {
        setText(item, text);
        setHidden(item, text === '');
        this.widen(item, at, text.length);
      }
      return `${line.label} ${text}`;
    });
    if (index === null) {
      this.canvas.setAttribute('aria-label', `${data.title}: ${summaries.join(', ')}`);
    }
  }

  /** Make room for this many characters. The room stays: a changed width would re-layout the whole page. */
  private widen(item: HTMLElement, at: number, characters: number): void {
    if (characters > (this.widths[at] ?? 0)) {
      this.widths[at] = characters;
      item.style.width = `${characters}ch`;
    }
  }

  private options(data: ChartData, palette: Palette): uPlot.Options {
    const font = '11px system-ui, sans-serif';
    const axis = (form: (value: number) => string): Partial<uPlot.Axis> => ({
      stroke: palette.faint,
      font,
      grid: { stroke: palette.grid, width: 1 },
      ticks: { show: false },
      values: (_, splits) => splits.map((value) => form(value)),
    });
    const hasRight = data.lines.some((line) => line.axis === 'right');
    const axes: uPlot.Axis[] = [
      { ...axis((value) => this.data?.place(value) ?? ''), size: 24, gap: 2 },
      { ...axis((value) => (this.data?.axis ?? this.data?.value ?? compact)(value)), scale: 'left', size: 54, gap: 2 },
    ];
    if (hasRight) {
      const right = axis((value) => (this.data?.axis ?? this.data?.rightValue ?? compact)(value));
      axes.push({ ...right, scale: 'right', side: 1, size: 48, gap: 2, grid: { show: false } });
    }
    const rangeOf = (side: 'left' | 'right'): uPlot.Range.Function => (_, least, greatest) => {
      if (least === null || greatest === null) {
        return [0, 1];
      }
      const margin = (greatest - least) * 0.08 || Math.abs(greatest) * 0.08 || 1;
      const isZeroNear = least >= 0 && (this.data?.fromZero !== false || least < greatest * 0.6);
      const most = side === 'left' ? this.data?.atLeast : this.data?.atLeastRight;
      const top = Math.max(most ?? -Infinity, greatest + margin);
      const cut = side === 'left' ? (this.data?.atMost ?? Infinity) : Infinity;
      return [isZeroNear ? 0 : least - margin, Math.min(top, cut)];
    };
    return {
      width: this.width,
      height: HEIGHT,
      padding: [8, hasRight ? 0 : 12, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 5 } },
      scales: { x: { time: false }, left: { range: rangeOf('left') }, right: { range: rangeOf('right') } },
      axes,
      series: [
        {},
        ...data.lines.map((line): uPlot.Series => ({
          label: line.label,
          scale: line.axis ?? 'left',
          stroke: line.colour,
          width: line.width ?? 1.6,
          spanGaps: true,
          points: { show: (plot, at) => isAlone(plot.data[at]!), size: 6 },
          ...(line.fill === undefined ? {} : { fill: line.fill }),
          ...(line.dash === undefined ? {} : { dash: [...line.dash] }),
        })),
      ],
      bands: (data.bands ?? []).map(([upper, lower, fill]) => ({ series: [upper, lower], fill })),
      hooks: {
        setCursor: [(plot): void => this.describe(this.data ?? data, plot.cursor.idx ?? null)],
      },
    };
  }
}

/** Whether there is one value only, through which no line can be drawn. */
function isAlone(values: ArrayLike<number | null | undefined>): boolean {
  let count = 0;
  for (let at = 0; at < values.length && count < 2; at++) {
    count += values[at] == null ? 0 : 1;
  }
  return count === 1;
}

function lastOf(values: Column): number | null {
  for (let at = values.length - 1; at >= 0; at--) {
    const value = values[at];
    if (value != null) {
      return value;
    }
  }
  return null;
}
