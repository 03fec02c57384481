// What a run's samples come to over time and over steps, in bounded memory whatever the run's length. No DOM.
import type { MetricsSample } from './events';
import { splitOf } from './means';
import { HOLD_S } from './run_means';
import { Axis, FAR, type Folded, Means, Rates } from './series';

const MAX_METRICS = 12;
const AXIS_ROOM = 1.1;
/** More than end between two samples. */
const KEPT_ENDS = 32;

export class RunCurves {
  readonly time = new Axis(1);
  readonly steps = new Axis(1);
  readonly computeS = new Means(this.time);
  readonly exchangeS = new Means(this.time);
  readonly inputS = new Means(this.time);
  readonly device = new Means(this.time);
  readonly memoryGib = new Means(this.time);
  /** Of the steps after a fit's first ones, in which TensorFlow traces and compiles: what the axis is for. */
  readonly settledS = new Means(this.time);
  /** Loss and metrics over steps, by name. */
  readonly metrics = new Map<string, Means>();
  /** The same over time. */
  readonly metricsOverTime = new Map<string, Means>();
  /** The step at which the ranks are, over time. */
  readonly stepOverTime = new Means(this.time);
  /** The newest value of each of these, of any rank. */
  readonly newest = new Map<string, number>();
  hasGpu = false;
  /** Of the largest device; 0 where that is not known. */
  memoryTotalGib = 0;
  /** The time of the newest sample. */
  newestS = -Infinity;
  /** The steps at which the newest trainings of the run ended. */
  private readonly ends: number[] = [];
  private readonly rateBins = new Rates(this.time);
  private readonly folded: Folded = { count: [], total: [], least: [], mean: [], greatest: [] };
  private foldedFrom = 0;
  private foldedWidth = 0;

  /** Add a sample.
   *
   * @param row the rank's place among the run's ranks.
   */
  take(sample: MetricsSample, row: number): void {
    if (Math.abs(sample.at_s) < FAR) {
      this.newestS = Math.max(this.newestS, sample.at_s);
    }
    const bin = this.time.bin(sample.at_s);
    this.takeDevice(sample, bin);
    if (sample.step === null) {
      return;
    }
    if (sample.samples_per_s !== null) {
      this.rateBins.set(row, bin, sample.samples_per_s, Math.ceil(HOLD_S / this.time.width));
    }
    this.takeSplit(sample, sample.step, bin);
    const place = this.steps.bin(sample.step);
    this.stepOverTime.add(bin, sample.step);
    this.takeMetric('loss', place, bin, sample.loss);
    for (const name in sample.metrics) {
      this.takeMetric(name, place, bin, sample.metrics[name]!);
    }
  }

  /** Take the end of a training: steps count on, and the next one's first sample begins there. */
  trainingEnded(step: number): void {
    this.ends.push(step);
    this.ends.splice(0, this.ends.length - KEPT_ENDS);
  }

  /** How far the axis of steps goes, so that the first steps of a fit, in which TensorFlow traces, do not flatten all
   * others: `atMost` with room above those, and how high the ones are that are `cut`; null where none is. */
  stepAxis(heights: readonly (number | null)[]): { atMost: number | null; cut: number | null } {
    const most = (values: readonly (number | null)[]): number =>
      values.reduce<number>((found, value) => Math.max(found, value ?? 0), 0);
    const [settled, highest] = [most(this.settledS.means()), most(heights)];
    const atMost = settled * AXIS_ROOM;
    return settled > 0 && highest > atMost ? { atMost, cut: highest } : { atMost: null, cut: null };
  }

  /** The samples/s of the rank in a row, over time. */
  rateOf(row: number): (number | null)[] {
    return this.rateBins.of(row);
  }

  /** Samples/s over time: all ranks together, and the least, the mean and the greatest of one. */
  ratesOverTime(): Folded {
    const { folded, time } = this;
    if (this.foldedWidth !== time.width) {
      // The bins were joined: all are new.
      this.foldedWidth = time.width;
      this.foldedFrom = 0;
      for (const column of [folded.count, folded.total, folded.least, folded.mean, folded.greatest]) {
        column.length = 0;
      }
    }
    this.rateBins.fold(this.foldedFrom, folded);
    this.foldedFrom = Math.max(0, time.count - Math.ceil((2 * HOLD_S) / time.width) - 2);
    return folded;
  }

  /** Return how many bins have samples of this many ranks: a total of fewer ranks would look like a drop. */
  settled(ranks: number): number {
    const { count } = this.folded;
    let settled = count.length;
    const open = Math.max(1, Math.ceil(3 / this.time.width));
    while (settled > 0 && settled > count.length - open && count[settled - 1]! < ranks) {
      settled--;
    }
    return settled;
  }

  private takeDevice(sample: MetricsSample, bin: number): void {
    if (sample.gpu_pct !== null || sample.gpu_memory_used_bytes !== null) {
      this.hasGpu = true;
    }
    this.memoryTotalGib = Math.max(this.memoryTotalGib, (sample.gpu_memory_total_bytes ?? 0) / 2 ** 30);
    this.device.add(bin, (this.hasGpu ? sample.gpu_pct : sample.cpu_pct) ?? NaN);
    this.memoryGib.add(bin, (this.hasGpu ? (sample.gpu_memory_used_bytes ?? NaN) : sample.rss_bytes) / 2 ** 30);
  }

  private takeSplit(sample: MetricsSample, step: number, bin: number): void {
    const split = splitOf(sample);
    if (split === null) {
      return;
    }
    const from = step - sample.steps;
    if (from > 0 && !this.ends.includes(from)) {
      this.settledS.add(bin, split.compute_s + split.exchange_s + split.input_s);
    }
    this.computeS.add(bin, split.compute_s);
    this.exchangeS.add(bin, split.exchange_s);
    this.inputS.add(bin, split.input_s);
  }

  private takeMetric(name: string, place: number, bin: number, value: number | null): void {
    if (!this.metrics.has(name)) {
      if (value === null || this.metrics.size >= MAX_METRICS) {
        return;
      }
      this.metrics.set(name, new Means(this.steps));
      this.metricsOverTime.set(name, new Means(this.time));
    }
    if (value !== null) {
      this.newest.set(name, value);
    }
    this.metrics.get(name)!.add(place, value ?? NaN);
    this.metricsOverTime.get(name)!.add(bin, value ?? NaN);
  }
}
