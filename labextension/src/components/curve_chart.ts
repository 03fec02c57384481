// A chart of several runs' curves of one metric. All charts of a page share axis, zoom and crosshair, by one CurveView.
import uPlot from 'uplot';
import { valueAt, type Values } from '../model/compare';
import type { Look } from '../model/curve_svg';
import type { CurveView } from '../model/curve_view';
import { type MetricChart, valueRange } from '../model/metric_charts';
import { logTicksOf } from '../model/ticks';
import { h, setAttribute, setHidden, setText } from './dom';
import { compact, loss, number } from './format';
import { sample } from './run_looks';
import type { Palette } from './theme';

const HEIGHT = 190;
/** How faint the curve as it is lies behind the smoothed one. */
const BEHIND = 0.28;
/** Steps and epochs are whole: 2.5 is none. */
const WHOLE = Array.from({ length: 31 }, (_, at) => [1, 2, 5][at % 3]! * 10 ** Math.floor(at / 3));
const AXIS_FONT = '11px system-ui, sans-serif';

export interface CurveTexts {
  readonly place: (value: number) => string;
  /** A place as it is read out: step 120. */
  readonly at: (place: string) => string;
  readonly validation: string;
  readonly keys: string;
}

export interface Drawn {
  readonly chart: MetricChart;
  readonly names: readonly string[];
  readonly looks: readonly Look[];
  readonly palette: Palette;
}

export class CurveChart {
  readonly element: HTMLElement;
  private readonly title = h('h3', { class: 'ddl-chart-title' });
  private readonly legend = h('ul', { class: 'ddl-legend ddl-curve-legend' });
  /** In the legend, of each line. */
  private values: readonly HTMLElement[] = [];
  private readonly canvas = h('div', { class: 'ddl-canvas ddl-curve-canvas', role: 'slider', tabindex: '0' });
  private plot: uPlot | null = null;
  private drawn: Drawn | null = null;
  private shape = '';
  private width = 0;

  constructor(
    private readonly view: CurveView,
    private readonly texts: () => CurveTexts,
  ) {
    this.element = h('figure', { class: 'ddl-chart ddl-curve-chart' }, this.title, this.legend, this.canvas);
    this.canvas.addEventListener('keydown', (event) => this.press(event));
    // uPlot takes a double click within its own element; it would show all values of this chart alone.
    this.canvas.addEventListener('dblclick', (event) => {
      event.stopPropagation();
      view.zoomTo(null);
    }, true);
  }

  resize(): void {
    const width = Math.floor(this.canvas.clientWidth);
    if (width > 0 && width !== this.width) {
      this.width = width;
      this.plot?.setSize({ width, height: HEIGHT });
    }
  }

  update(drawn: Drawn): void {
    const { chart, palette } = drawn;
    const { isLog, smoothing } = this.view.settings;
    const isOther = this.drawn?.palette !== palette;
    this.drawn = drawn;
    setText(this.title, chart.metric);
    setAttribute(this.canvas, 'aria-label', chart.metric);
    setAttribute(this.canvas, 'aria-description', this.texts().keys);
    setAttribute(this.title, 'title', this.texts().keys);
    this.width ||= Math.max(160, Math.floor(this.canvas.clientWidth));
    const shape = [isLog, smoothing > 0, ...chart.lines.map(({ run, split }) => `${run} ${split} ${drawn.names[run]}`)].join('|');
    if (this.plot === null || this.shape !== shape || isOther) {
      this.plot?.destroy();
      this.shape = shape;
      this.drawLegend(drawn);
      this.plot = new uPlot(this.options(drawn), this.columns(), this.canvas);
    } else {
      this.plot.setData(this.columns());
    }
    this.moved();
  }

  /** Show the crosshair, and the values there; the newest where it is nowhere. */
  moved(): void {
    const { plot, drawn } = this;
    const { cursor, shown } = this.view;
    if (plot === null || drawn === null) {
      return;
    }
    const isIn = cursor !== null && shown !== null && cursor >= shown[0] && cursor <= shown[1];
    plot.setCursor(isIn ? { left: plot.valToPos(cursor, 'x'), top: 0 } : { left: -10, top: -10 }, false);
    const { texts } = this;
    const read = drawn.chart.lines.map((line, at) => {
      const value = cursor === null ? (line.values.at(-1) ?? null) : valueAt(line, cursor);
      const text = value === null ? '' : (drawn.chart.metric === 'loss' ? loss : number)(value);
      const item = this.values[at];
      if (item !== undefined) {
        setText(item, text);
        setHidden(item.parentElement!, text === '');
      }
      const name = `${drawn.names[line.run]}${line.split === 'validation' ? ` ${texts().validation}` : ''}`;
      return text === '' ? '' : `${name} ${text}`;
    });
    const values = read.filter((one) => one !== '').join(', ');
    const place = cursor === null ? '' : `${texts().at(texts().place(cursor))}: `;
    setAttribute(this.canvas, 'aria-valuetext', place + values);
    setAttribute(this.canvas, 'aria-valuenow', String(cursor ?? shown?.[1] ?? 0));
    setAttribute(this.canvas, 'aria-valuemin', String(shown?.[0] ?? 0));
    setAttribute(this.canvas, 'aria-valuemax', String(shown?.[1] ?? 0));
  }

  destroy(): void {
    this.plot?.destroy();
    this.plot = null;
  }

  private press(event: KeyboardEvent): void {
    const { view, drawn } = this;
    if (drawn === null || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const { places } = drawn.chart;
    const steps = event.shiftKey ? 10 : 1;
    const keys: Readonly<Record<string, () => void>> = {
      ArrowLeft: () => view.moveBy(-steps, places),
      ArrowRight: () => view.moveBy(steps, places),
      Home: () => view.moveBy(-places.length, places),
      End: () => view.moveBy(places.length, places),
      '+': () => view.zoom('in'),
      '=': () => view.zoom('in'),
      '-': () => view.zoom('out'),
      Escape: () => {
        view.zoomTo(null);
        view.move(null);
      },
    };
    const act = keys[event.key];
    if (act !== undefined) {
      event.preventDefault();
      event.stopPropagation();
      act();
    }
  }

  private drawLegend({ chart, names, looks }: Drawn): void {
    const { texts } = this;
    // A run has one entry, with the values of its training and its validation.
    const entries = new Map<number, HTMLElement>();
    this.values = chart.lines.map(({ run, split }) => {
      const entry = entries.get(run) ?? h('li', {}, h('span', { class: 'ddl-curve-name' }, names[run]!));
      entries.set(run, entry);
      const what = split === 'validation' ? [h('span', { class: 'ddl-visually-hidden' }, texts().validation)] : [];
      const value = h('span', { class: 'ddl-legend-value' });
      entry.append(h('span', { class: 'ddl-curve-value' }, sample(looks[run]!, split), ...what, value));
      return value;
    });
    this.legend.replaceChildren(...entries.values());
  }

  /** The places; the curves as they are, where they are smoothed; the curves. */
  private columns(): uPlot.AlignedData {
    const { chart } = this.drawn!;
    const { isLog, smoothing } = this.view.settings;
    // A logarithm has no place for zero and below.
    const drawn = (values: Values): (number | null)[] => (isLog ? values.map((value) => (value !== null && value > 0 ? value : null)) : [...values]);
    const behind = smoothing > 0 ? chart.raw.map(drawn) : [];
    return [[...chart.places], ...behind, ...chart.values.map(drawn)];
  }

  private options({ chart, looks, palette }: Drawn): uPlot.Options {
    const { view, texts } = this;
    const { isLog, smoothing } = view.settings;
    const axis = (form: (value: number) => string, more: Partial<uPlot.Axis>): uPlot.Axis => ({
      stroke: palette.faint,
      font: AXIS_FONT,
      grid: { stroke: palette.grid, width: 1 },
      ticks: { show: false },
      values: (_, splits) => splits.map(form),
      ...more,
    });
    const line = (at: number, isBehind: boolean): uPlot.Series => {
      const { run, split } = chart.lines[at]!;
      const { colour, dashes } = looks[run]!;
      return {
        stroke: colour,
        width: split === 'training' ? 1.8 : 1.4,
        dash: [...dashes[split]],
        alpha: isBehind ? BEHIND : 1,
        spanGaps: true,
        scale: 'y',
        points: { show: !isBehind && chart.lines[at]!.places.length < 2, size: 6 },
      };
    };
    const behind = smoothing > 0 ? chart.lines.map((_, at) => line(at, true)) : [];
    return {
      width: this.width,
      height: HEIGHT,
      padding: [8, 12, 0, 0],
      legend: { show: false },
      cursor: {
        y: false,
        drag: { x: true, y: false, setScale: false, dist: 4 },
        points: { size: 6 },
        // Runs have values at places of their own: the nearest one stands for each.
        dataIdx: (plot, series, at) => (series === 0 ? at : nearestIn(plot.data[series]!, at)),
      },
      scales: {
        x: { time: false, range: () => [...(view.shown ?? [0, 1])] as [number, number] },
        y: { distr: isLog ? 3 : 1, range: (plot) => [...valueRange(chart.metric, inSight(plot, view), isLog)] as [number, number] },
      },
      axes: [axis((value) => texts().place(value), { size: 24, gap: 2, ...(view.settings.x === 'time' ? {} : { incrs: WHOLE }) }), axis(compact, { scale: 'y', size: 56, gap: 2, ...(isLog ? { splits: (_, __, low, high) => logTicksOf(low, high), filter: (_, splits) => splits } : {}) })],
      series: [{}, ...behind, ...chart.lines.map((_, at) => line(at, false))],
      hooks: {
        setCursor: [(plot): void => view.move(plot.cursor.left! < 0 ? null : plot.posToVal(plot.cursor.left!, 'x'))],
        setSelect: [
          (plot): void => {
            const { left, width } = plot.select;
            if (width > 0) {
              const range = [plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x')] as const;
              plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
              view.zoomTo(range);
            }
          },
        ],
      },
    };
  }
}

/** Return the values that what is zoomed to has. */
function inSight({ data }: uPlot, { shown }: CurveView): (number | null)[] {
  const [places, ...lines] = data;
  const isIn = Array.from(places, (place) => shown === null || (place >= shown[0] && place <= shown[1]));
  return lines.flatMap((values) => Array.from(values, (value) => value ?? null).filter((_, at) => isIn[at]));
}

function nearestIn(values: ArrayLike<number | null | undefined>, at: number): number {
  for (let distance = 0; distance < values.length; distance++) {
    for (const index of [at - distance, at + distance]) {
      if (values[index] != null) {
        return index;
      }
    }
  }
  return at;
}
