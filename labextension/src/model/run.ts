// A run as its events tell it. No DOM; bounded memory whatever the run's length.
import type { DdlEvent, MetricsSample, RankFailed, RunStarted, StragglerMarked } from './events';
import { Figures } from './figures';
import { plain } from './lines';
import { LogStore } from './logs';
import { Axis, type Folded, Means, Rates } from './series';

export type RankState = 'waiting' | 'running' | 'training' | 'straggler' | 'finished' | 'failed' | 'released' | 'lost';

/** Worst first, as a summary tells them. */
export const STATES: readonly RankState[] = [
  'lost',
  'failed',
  'released',
  'straggler',
  'waiting',
  'running',
  'training',
  'finished',
];

export interface Rank {
  readonly rank: number;
  state: RankState;
  /** Its newest sample; null before the first. */
  latest: Figures | null;
  /** Its newest sample of which training steps were measured: the figures stay when the training is over. */
  trained: Figures | null;
  straggler: StragglerMarked | null;
  host: string | null;
  /** Why it failed or is gone; empty otherwise. */
  problem: string;
}

export interface Split {
  readonly compute_s: number;
  readonly exchange_s: number;
  readonly input_s: number;
}

// How long a rank's rate holds without a new sample.
const HOLD_S = 5;
const MAX_METRICS = 12;
const ENDED: ReadonlySet<RankState> = new Set<RankState>(['finished', 'failed', 'released', 'lost']);

export class RunModel {
  run: string | null = null;
  outcome: string | null = null;
  seconds: number | null = null;
  model: string | null = null;
  epoch: number | null = null;
  step: number | null = null;
  /** One rank's samples/s alone, for the scaling efficiency; null when nobody knows it. */
  singleRankSamplesPerS: number | null = null;
  lost: string | null = null;
  firstFailure: RankFailed | null = null;
  hasGpu = false;
  /** Of the largest device; 0 where that is not known. */
  memoryTotalGib = 0;
  /** Events that were no events, with the first one's fault. */
  malformed = 0;
  readonly ranks: Rank[] = [];
  readonly logs = new LogStore();
  readonly time = new Axis(1);
  readonly steps = new Axis(1);
  readonly computeS = new Means(this.time);
  readonly exchangeS = new Means(this.time);
  readonly inputS = new Means(this.time);
  readonly device = new Means(this.time);
  readonly memoryGib = new Means(this.time);
  /** Loss and metrics over steps, by name. */
  readonly curves = new Map<string, Means>();
  private readonly rows = new Map<number, number>();
  private readonly rates = new Rates(this.time);
  private readonly folded: Folded = { count: [], total: [], least: [], mean: [], greatest: [] };
  private foldedFrom = 0;
  private foldedWidth = 0;
  private newest_s = -Infinity;

  handle(event: DdlEvent): void {
    switch (event.type) {
      case 'run_started':
        this.start(event);
        break;
      case 'rank_ready':
        this.rank(event.rank).host = event.host;
        break;
      case 'output':
        this.arrive(event.rank);
        this.logs.write(event.rank, event.stream, event.text, event.skipped_bytes);
        break;
      case 'metrics':
        this.sample(event);
        break;
      case 'straggler':
        this.mark(event);
        break;
      case 'rank_finished':
        this.logs.finish(event.rank);
        this.end(event.rank, 'finished', '');
        break;
      case 'rank_failed':
        this.fail(event);
        break;
      case 'rank_lost':
        this.lose(event.rank, event.cause);
        break;
      case 'run_finished':
        this.outcome = event.outcome;
        this.seconds = event.seconds;
        this.logs.finish(null);
        break;
      case 'rank_warm':
      case 'rich_output':
      case 'output_cleared':
      case 'rank_alive':
      case 'rank_silent':
        break;
    }
  }

  /** Return a rank, which need not have been named by the run's start. */
  rank(rank: number): Rank {
    return this.ranks[this.row(rank)]!;
  }

  rankOrUndefined(rank: number): Rank | undefined {
    const row = this.rows.get(rank);
    return row === undefined ? undefined : this.ranks[row];
  }

  get isOver(): boolean {
    return this.outcome !== null;
  }

  counts(): Map<RankState, number> {
    const counts = new Map<RankState, number>();
    for (const { state } of this.ranks) {
      counts.set(state, (counts.get(state) ?? 0) + 1);
    }
    return counts;
  }

  /** Return the newest figures of a rank that still count: those of now, or, in a run that is over, of its end. */
  private figures(rank: Rank): Figures | null {
    const { trained } = rank;
    if (trained === null || rank.state === 'lost') {
      return null;
    }
    return this.isOver || (!ENDED.has(rank.state) && this.newest_s - trained.at_s <= HOLD_S) ? trained : null;
  }

  /** Samples/s of all ranks that train, and how many these are. */
  rate(): { total: number; ranks: number } {
    let total = 0;
    let ranks = 0;
    for (const rank of this.ranks) {
      const sample = this.figures(rank);
      if (sample?.samples_per_s != null) {
        total += sample.samples_per_s;
        ranks++;
      }
    }
    return { total, ranks };
  }

  /** Total samples/s over what as many single ranks would do; null when one rank alone was never measured. */
  efficiency(): number | null {
    const { total, ranks } = this.rate();
    const single = this.singleRankSamplesPerS;
    return single !== null && single > 0 && ranks > 0 ? total / (single * ranks) : null;
  }

  /** The mean loss of the ranks' newest samples. */
  loss(): number | null {
    return mean(this.ranks.map((rank) => rank.trained?.loss ?? null));
  }

  /** What an average step of the ranks that train is spent on. */
  split(): Split | null {
    const splits = this.ranks.map((rank) => splitOf(this.figures(rank))).filter((split) => split !== null);
    if (splits.length === 0) {
      return null;
    }
    const of = (key: keyof Split): number => splits.reduce((sum, split) => sum + split[key], 0) / splits.length;
    return { compute_s: of('compute_s'), exchange_s: of('exchange_s'), input_s: of('input_s') };
  }

  /** One rank's samples/s over time. */
  rateOf(rank: number): (number | null)[] {
    const row = this.rows.get(rank);
    return row === undefined ? [] : this.rates.of(row);
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
    this.rates.fold(this.foldedFrom, folded);
    this.foldedFrom = Math.max(0, time.count - Math.ceil((2 * HOLD_S) / time.width) - 2);
    return folded;
  }

  /** How many of the bins all ranks have told of: a total of fewer ranks looks like a fall, and is none. */
  get settled(): number {
    const { count } = this.folded;
    const full = this.isOver ? 0 : this.rate().ranks;
    let settled = count.length;
    const open = Math.max(1, Math.ceil(3 / this.time.width));
    while (settled > 0 && settled > count.length - open && count[settled - 1]! < full) {
      settled--;
    }
    return settled;
  }

  private start(event: RunStarted): void {
    this.run = event.run;
    for (const rank of event.ranks) {
      this.arrive(rank);
    }
  }

  private row(rank: number): number {
    let row = this.rows.get(rank);
    if (row === undefined) {
      row = this.ranks.length;
      this.rows.set(rank, row);
      this.ranks.push({
        rank,
        state: 'waiting',
        latest: null,
        trained: null,
        straggler: null,
        host: null,
        problem: '',
      });
    }
    return row;
  }

  private arrive(rank: number): Rank {
    const found = this.rank(rank);
    if (found.state === 'waiting') {
      found.state = 'running';
    }
    return found;
  }

  private sample(sample: MetricsSample): void {
    const rank = this.arrive(sample.rank);
    (rank.latest ??= new Figures()).take(sample);
    this.newest_s = Math.max(this.newest_s, sample.at_s);
    this.model ??= sample.model;
    const bin = this.time.bin(sample.at_s);
    if (sample.gpu_pct !== null || sample.gpu_memory_used_bytes !== null) {
      this.hasGpu = true;
    }
    this.memoryTotalGib = Math.max(this.memoryTotalGib, (sample.gpu_memory_total_bytes ?? 0) / 2 ** 30);
    this.device.add(bin, (this.hasGpu ? sample.gpu_pct : sample.cpu_pct) ?? NaN);
    this.memoryGib.add(bin, (this.hasGpu ? (sample.gpu_memory_used_bytes ?? NaN) : sample.rss_bytes) / 2 ** 30);
    if (sample.step === null) {
      return;
    }
    if (rank.state === 'running') {
      rank.state = 'training';
    }
    this.step = Math.max(this.step ?? 0, sample.step);
    this.epoch = sample.epoch ?? this.epoch;
    if (sample.samples_per_s === null) {
      return;
    }
    (rank.trained ??= new Figures()).take(sample);
    this.rates.set(this.rows.get(sample.rank)!, bin, sample.samples_per_s, Math.ceil(HOLD_S / this.time.width));
    const split = splitOf(sample);
    if (split !== null) {
      this.computeS.add(bin, split.compute_s);
      this.exchangeS.add(bin, split.exchange_s);
      this.inputS.add(bin, split.input_s);
    }
    const place = this.steps.bin(sample.step);
    this.curve('loss', place, sample.loss);
    for (const [name, value] of Object.entries(sample.metrics)) {
      this.curve(name, place, value);
    }
  }

  private curve(name: string, bin: number, value: number | null): void {
    let curve = this.curves.get(name);
    if (curve === undefined) {
      if (value === null || this.curves.size >= MAX_METRICS) {
        return;
      }
      curve = new Means(this.steps);
      this.curves.set(name, curve);
    }
    curve.add(bin, value ?? NaN);
  }

  private mark(event: StragglerMarked): void {
    const rank = this.arrive(event.rank);
    rank.straggler = event.is_straggler ? event : null;
    if (!ENDED.has(rank.state)) {
      rank.state = event.is_straggler ? 'straggler' : 'training';
    }
  }

  private fail(event: RankFailed): void {
    this.logs.finish(event.rank);
    const problem = `${event.name}: ${plain(event.message)}`;
    this.end(event.rank, event.released ? 'released' : 'failed', problem);
    const rank = this.rank(event.rank);
    rank.host ??= event.host;
    if (event.released) {
      return;
    }
    if (this.firstFailure === null || event.at_s < this.firstFailure.at_s) {
      this.firstFailure = event;
    }
    const traceback = event.traceback.flatMap((part) => part.replace(/\n+$/, '').split('\n').map(plain));
    const lines = traceback.at(-1)?.startsWith(event.name) === true ? traceback : [...traceback, problem];
    this.logs.error(event.rank, [`Rank ${event.rank} on ${event.host} raised ${event.name}`, ...lines]);
  }

  private lose(rank: number | null, cause: string): void {
    this.lost ??= cause;
    this.logs.finish(rank);
    this.logs.error(rank, [rank === null ? `The ranks are gone: ${cause}` : `Rank ${rank} is gone: ${cause}`]);
    for (const one of rank === null ? this.ranks : [this.rank(rank)]) {
      if (!ENDED.has(one.state) || rank !== null) {
        one.state = 'lost';
        one.problem = cause;
      }
    }
  }

  private end(rank: number, state: RankState, problem: string): void {
    const found = this.rank(rank);
    if (found.state !== 'lost') {
      found.state = state;
      found.problem = problem;
    }
  }
}

/** Return what a sample's average step was spent on; what was not measured counts as none. */
export function splitOf(sample: Pick<MetricsSample, 'step_s' | 'exchange_s' | 'input_s'> | null): Split | null {
  if (sample === null || sample.step_s === null) {
    return null;
  }
  const exchange_s = sample.exchange_s ?? 0;
  const input_s = sample.input_s ?? 0;
  return { compute_s: Math.max(0, sample.step_s - exchange_s - input_s), exchange_s, input_s };
}

function mean(values: readonly (number | null)[]): number | null {
  const found = values.filter((value) => value !== null);
  return found.length === 0 ? null : found.reduce((sum, value) => sum + value, 0) / found.length;
}
