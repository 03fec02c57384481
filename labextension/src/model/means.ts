// What a rank's samples come to: the mean of its whole training, and of its last ten seconds. Python has the same for its
// table, its picture and the list of runs (jupyter_ddl/protocol/sample_means.py); both are tested on schema/figures.fixture.json.
// Typed arrays: of a thousand ranks come a thousand samples a second.
import type { MetricsSample } from './events';
import { keptFigures } from './kept_figures';
import { isRecord, numberOrNull } from './parse';
import { FAR } from './series';

/** What some of a rank's steps came to; null for what was not measured. The loss is the last one. */
export interface Mean {
  readonly samples_per_s: number | null;
  readonly step_s: number | null;
  /** Of a step, over the steps of which it was measured. */
  readonly exchange_s: number | null;
  readonly input_s: number | null;
  readonly loss: number | null;
}

/** What an average step is spent on. */
export interface Split {
  readonly compute_s: number;
  readonly exchange_s: number;
  readonly input_s: number;
}

type Measured = Pick<MetricsSample, 'at_s' | 'steps' | 'samples_per_s' | 'step_s' | 'exchange_s' | 'input_s' | 'loss'>;

const WINDOW_S = 10;
const enum Sum {
  Steps,
  Seconds,
  Samples,
  CountedS,
  ExchangeS,
  ExchangeSteps,
  InputS,
  InputSteps,
  Length,
}

/** Where a window is added up: a thousand ranks would leave as many arrays a second. */
const SCRATCH = new Float64Array(Sum.Length);

class KeptMean extends keptFigures<Mean>(['samples_per_s', 'step_s', 'exchange_s', 'input_s', 'loss']) {}

export class SampleMeans {
  private readonly all = new Float64Array(Sum.Length);
  /** The sums of the last seconds in which steps were measured, each at its second's remainder. */
  private readonly window = new Float64Array(WINDOW_S * Sum.Length);
  private readonly seconds = new Float64Array(WINDOW_S).fill(-Infinity);
  private newest = -Infinity;
  private loss: number | null = null;
  /** Each is asked for by several views at every update. */
  private wholeMean: Mean | null = null;
  private readonly recentMean = new KeptMean();
  private isRecent = false;

  take(sample: Measured): void {
    this.wholeMean = null;
    this.isRecent = false;
    this.loss = sample.loss ?? this.loss;
    if (sample.step_s === null) {
      return;
    }
    add(this.all, 0, sample, sample.step_s);
    // Samples whose time is no number count for the second before.
    const measured = Math.abs(sample.at_s) < FAR ? Math.floor(sample.at_s) : this.newest;
    const second = Number.isFinite(measured) ? measured : 0;
    if (second <= this.newest - WINDOW_S) {
      return;
    }
    this.newest = Math.max(this.newest, second);
    const place = ((second % WINDOW_S) + WINDOW_S) % WINDOW_S;
    if (this.seconds[place] !== second) {
      this.seconds[place] = second;
      this.window.fill(0, place * Sum.Length, (place + 1) * Sum.Length);
    }
    add(this.window, place * Sum.Length, sample, sample.step_s);
  }

  /** The mean of all steps. */
  whole(): Mean {
    return (this.wholeMean ??= meanOf(this.all, this.loss));
  }

  /** The mean of the steps of the last ten seconds in which there were some; it holds until the next sample is taken. */
  recent(): Mean {
    if (!this.isRecent) {
      this.recentMean.take(this.meanOfWindow());
      this.isRecent = true;
    }
    return this.recentMean;
  }

  private meanOfWindow(): Mean {
    const total = SCRATCH.fill(0);
    for (let place = 0; place < WINDOW_S; place++) {
      if (this.seconds[place]! > this.newest - WINDOW_S) {
        for (let at = 0; at < Sum.Length; at++) {
          total[at] = total[at]! + this.window[place * Sum.Length + at]!;
        }
      }
    }
    return meanOf(total, this.loss);
  }
}

function put(sums: Float64Array, at: number, value: number): void {
  sums[at] = sums[at]! + value;
}

function add(sums: Float64Array, from: number, sample: Measured, step_s: number): void {
  // One that does not say how many steps it is of is of one.
  const steps = sample.steps || 1;
  const seconds = step_s * steps;
  put(sums, from + Sum.Steps, steps);
  put(sums, from + Sum.Seconds, seconds);
  if (sample.samples_per_s !== null) {
    put(sums, from + Sum.Samples, sample.samples_per_s * seconds);
    put(sums, from + Sum.CountedS, seconds);
  }
  if (sample.exchange_s !== null) {
    put(sums, from + Sum.ExchangeS, sample.exchange_s * steps);
    put(sums, from + Sum.ExchangeSteps, steps);
  }
  if (sample.input_s !== null) {
    put(sums, from + Sum.InputS, sample.input_s * steps);
    put(sums, from + Sum.InputSteps, steps);
  }
}

function meanOf(sums: Float64Array, loss: number | null): Mean {
  // Null where nothing was measured; NaN is something that was.
  const over = (part: Sum, whole: Sum): number | null => (sums[whole] === 0 ? null : sums[part]! / sums[whole]!);
  return {
    samples_per_s: over(Sum.Samples, Sum.CountedS),
    step_s: over(Sum.Seconds, Sum.Steps),
    exchange_s: over(Sum.ExchangeS, Sum.ExchangeSteps),
    input_s: over(Sum.InputS, Sum.InputSteps),
    loss,
  };
}

/** Return what a sample's average step was spent on; what was not measured counts as none. */
export function splitOf(sample: Pick<MetricsSample, 'step_s' | 'exchange_s' | 'input_s'>): Split | null {
  if (sample.step_s === null) {
    return null;
  }
  const exchange_s = sample.exchange_s ?? 0;
  const input_s = sample.input_s ?? 0;
  return { compute_s: Math.max(0, sample.step_s - exchange_s - input_s), exchange_s, input_s };
}

/** Read the means that come with a run that is over: rank -> what all its steps came to; null for what is none. */
export function meansOf(value: unknown): ReadonlyMap<number, Mean> | null {
  if (!isRecord(value) || !Array.isArray(value['columns']) || !Array.isArray(value['rows'])) {
    return null;
  }
  const columns = value['columns'].map(String);
  const rows = value['rows'].filter((row): row is unknown[] => Array.isArray(row));
  const of = (row: unknown[], name: string): number | null => numberOrNull(row[columns.indexOf(name)]);
  return new Map(
    rows.map((row): [number, Mean] => [
      of(row, 'rank') ?? -1,
      {
        samples_per_s: of(row, 'samples_per_s'),
        step_s: of(row, 'step_s'),
        exchange_s: of(row, 'exchange_s'),
        input_s: of(row, 'input_s'),
        loss: of(row, 'loss'),
      },
    ]),
  );
}
