// What the charts show of a model.
import { onOneAxis } from '../model/compare';
import { metricCurvesOf, metricNames, type MetricCurve, splitName } from '../model/metric_curves';
import { partName } from '../model/part_name';
import type { RunModel } from '../model/run';
import type { Words } from '../model/words';
import { Chart, type ChartData, type Column, type Line } from './chart';
import { h, setHidden } from './dom';
import { clock, compact, loss, milliseconds, number, percent } from './format';
import type { Palette } from './theme';

/** Up to this many ranks have a line each; with more, the least and the greatest stand for all. */
const OWN_LINES = 16;
/** The first charts are of training, the last one is of the device. */
const TRAINING_CHARTS = 3;
/** The place of the loss among them, which other metrics follow. */
const LOSS = 1;
/** The most metrics besides the loss that have a chart each: the page of compared runs has all. */
const MAX_METRICS = 5;
const VALIDATION_DASH = [6, 4];

export class Charts {
  readonly element: HTMLElement;
  private readonly charts = [new Chart(), new Chart(), new Chart(), new Chart()];
  /** Of the metrics besides the loss, by name. */
  private readonly metrics = new Map<string, Chart>();

  constructor(private readonly trans: Words) {
    this.element = h(
      'section',
      { class: 'ddl-charts', 'aria-label': trans.__('Charts') },
      ...this.charts.map((chart) => chart.element),
    );
  }

  /** Draw the charts that are to be drawn: rates, curves, what a step is spent on, the device. */
  update(model: RunModel, palette: Palette, isDue: readonly boolean[]): void {
    const seconds = model.curves.time.places();
    for (const [at, chart] of this.charts.entries()) {
      // Of a run that does not train: nothing that will stay empty.
      setHidden(chart.element, at < TRAINING_CHARTS && !model.hasTrained);
    }
    const makers = [ratesOf, null, splitOver, deviceOf] as const;
    for (const [at, maker] of makers.entries()) {
      if (isDue[at] === true && maker !== null) {
        this.charts[at]!.update(maker(model, seconds, palette, this.trans), palette);
      }
    }
    if (isDue[LOSS] === true) {
      this.drawMetrics(model, palette);
    }
  }

  private drawMetrics(model: RunModel, palette: Palette): void {
    const curves = metricCurvesOf(model, 'step');
    // One that has no number to draw says so in its place.
    const named = [...model.curves.metrics.keys()].map(splitName);
    const others = metricNames([...curves, ...named]).filter((metric) => metric !== 'loss').slice(0, MAX_METRICS);
    for (const [metric, chart] of this.metrics) {
      if (!others.includes(metric)) {
        // Of another run.
        chart.destroy();
        chart.element.remove();
        this.metrics.delete(metric);
      }
    }
    let last = this.charts[LOSS]!;
    for (const metric of others) {
      const chart = this.metrics.get(metric) ?? new Chart();
      this.metrics.set(metric, chart);
      if (last.element.nextElementSibling !== chart.element) {
        last.element.after(chart.element);
      }
      last = chart;
    }
    for (const [metric, chart] of [['loss', this.charts[LOSS]!] as const, ...this.metrics]) {
      chart.update(metricOf(metric, model, curves, palette, this.trans), palette);
    }
  }

  resize(): void {
    for (const chart of this.all) {
      chart.resize();
    }
  }

  destroy(): void {
    for (const chart of this.all) {
      chart.destroy();
    }
  }

  private get all(): Chart[] {
    return [...this.charts, ...this.metrics.values()];
  }
}

function ratesOf(model: RunModel, seconds: Float64Array, palette: Palette, trans: Words): ChartData {
  const { rates, settled } = model.ratesOverTime();
  const { total, least, mean, greatest } = rates;
  const shown = Math.min(settled, seconds.length);
  const { total: rate, ranks } = model.means.rate();
  const summary = ranks > 0 ? rate : null;
  const lines: Line[] = [
    { label: trans.__('all ranks'), values: total.slice(0, shown), colour: palette.lines[0]!, width: 2.2, summary },
  ];
  const own = model.ranks.length <= OWN_LINES ? [...model.ranks].sort((a, b) => a.rank - b.rank) : [];
  for (const [at, { rank }] of own.entries()) {
    const colour = palette.lines[1 + (at % (palette.lines.length - 1))]!;
    const dash = [[], [5, 3], [2, 2]][Math.floor(at / (palette.lines.length - 1))] ?? [];
    const values = model.rateOf(rank).slice(0, shown);
    const isQuiet = own.length > 8;
    lines.push({ label: trans.__('rank %1', rank), values, colour, axis: 'right', width: 1, dash, isQuiet, isBare: true });
  }
  if (own.length === 0) {
    const thin = { axis: 'right', width: 1 } as const;
    const range = model.means.range();
    const inTheMean = ranks > 0 ? rate / ranks : null;
    lines.push({ label: trans.__('fastest'), values: greatest.slice(0, shown), colour: palette.lines[2]!, ...thin, summary: range?.greatest ?? null });
    lines.push({ label: trans.__('mean'), values: mean.slice(0, shown), colour: palette.lines[3]!, ...thin, summary: inTheMean });
    lines.push({ label: trans.__('slowest'), values: least.slice(0, shown), colour: palette.lines[1]!, ...thin, summary: range?.least ?? null });
  }
  return {
    title: trans.__('Samples/s: all ranks (left), each rank (right)'),
    places: seconds.subarray(0, shown),
    lines,
    empty: trans.__('No training steps yet.'),
    place: clock,
    value: number,
    axis: compact,
    // Ranks keep to the lower half, under the line of all of them.
    atLeastRight: 2 * greatest.reduce<number>((most, value) => Math.max(most, value ?? 0), 0),
    rightValue: number,
  };
}

/** Loss, or another metric, over steps: training, and validation where there is one. */
function metricOf(metric: string, model: RunModel, curves: readonly MetricCurve[], palette: Palette, trans: Words): ChartData {
  const own = curves.filter((curve) => curve.metric === metric);
  const { places, values } = onOneAxis(own);
  const lines = own.map(({ split }, at): Line => {
    const isTraining = split === 'training';
    const newest = model.curves.newest.get(metric) ?? 0;
    // The loss is that of the tile; of others the mean of the ranks' newest, unless it is none.
    const shown = metric === 'loss' ? { summary: model.means.loss() } : Number.isFinite(newest) ? {} : { summary: newest };
    const looks = isTraining ? { colour: palette.lines[0]!, ...shown } : { colour: palette.lines[1]!, dash: VALIDATION_DASH };
    return { label: isTraining ? trans.__('training') : trans.__('validation'), values: values[at]!, legend: heldOf(values[at]!), ...looks };
  });
  return {
    title: metric === 'loss' ? trans.__('Loss over steps') : trans.__('%1 over steps', metric),
    places,
    lines,
    value: metric === 'loss' ? loss : number,
    axis: compact,
    fromZero: false,
    empty: metric === 'loss' && own.length === 0 && !model.curves.metrics.has('loss') ? trans.__('No loss yet.') : emptyOf(metric, model, trans),
    place: compact,
  };
}

const emptyOf = (metric: string, model: RunModel, trans: Words): string =>
  metric === 'loss'
    ? trans.__('Nothing to draw: the loss is %1.', loss(model.means.loss()))
    : trans.__('Nothing to draw: the %1 is %2.', metric, number(model.curves.newest.get(metric)));

/** Each value, and where there is none the one before: two curves have places of their own. */
function heldOf(values: Column): Column {
  let held: number | null = null;
  return values.map((value) => (held = value ?? held));
}

function splitOver(model: RunModel, seconds: Float64Array, palette: Palette, trans: Words): ChartData {
  const compute = model.curves.computeS.means();
  const exchange = model.curves.exchangeS.means();
  const input = model.curves.inputS.means();
  const upToExchange = add(compute, exchange);
  const split = model.means.split();
  const line = (part: 'input' | 'exchange' | 'compute', values: Column, legend: Column, colour: string): Line => ({
    label: partName(part, trans),
    values,
    legend,
    colour,
    fill: colour,
    width: 0,
    summary: split?.[`${part}_s`] ?? null,
  });
  const heights = add(upToExchange, input);
  const { atMost, cut } = model.curves.stepAxis(heights);
  return {
    title:
      cut === null
        ? trans.__('What a step is spent on, mean of the ranks')
        : trans.__('What a step is spent on, mean of the ranks (first steps, up to %1, are cut)', milliseconds(cut)),
    atMost,
    places: seconds,
    // The tallest is drawn first, and the others over it.
    lines: [
      line('input', heights, input, palette.input),
      line('exchange', upToExchange, exchange, palette.exchange),
      line('compute', compute, compute, palette.compute),
    ],
    empty: trans.__('No training steps yet.'),
    place: clock,
    value: milliseconds,
  };
}

function deviceOf(model: RunModel, seconds: Float64Array, palette: Palette, trans: Words): ChartData {
  const { device, memoryGib } = model.curves;
  const first = palette.lines[0]!;
  return {
    title: model.curves.hasGpu ? trans.__('GPU use (left) and memory (right)') : trans.__('CPU of a rank (left) and its memory (right)'),
    places: seconds,
    lines: [
      { label: model.curves.hasGpu ? trans.__('GPU use, mean') : trans.__('CPU use, mean'), values: device.means(), colour: first, width: 2 },
      { label: trans.__('least'), values: device.minima(), colour: first, width: 0.8, dash: [2, 2], isQuiet: true },
      { label: trans.__('most'), values: device.maxima(), colour: first, width: 0.8, dash: [5, 3], isQuiet: true },
      { label: trans.__('memory, mean'), values: memoryGib.means(), colour: palette.lines[1]!, axis: 'right' },
    ],
    empty: trans.__('No samples yet.'),
    place: clock,
    value: (value) => percent(value / 100),
    rightValue: (value) => `${number(value)} GiB`,
    atLeast: 100,
    atLeastRight: model.curves.memoryTotalGib,
  };
}

function add(first: readonly (number | null)[], second: readonly (number | null)[]): (number | null)[] {
  return first.map((value, at) => (value === null ? null : value + (second[at] ?? 0)));
}
