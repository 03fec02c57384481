// A run as its events tell it. No DOM; bounded memory whatever the run's length.
import type { DdlEvent, MetricsSample, RankFailed, RunStarted, StragglerMarked } from './events';
import { Figures } from './figures';
import { plain } from './lines';
import { LogStore } from './logs';
import { type Mean, mean, SampleMeans, total } from './means';
import { Axis, FAR, type Folded, Means, Rates } from './series';

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
  /** What its training steps came to. */
  readonly means: SampleMeans;
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
const AXIS_ROOM = 1.1;
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
  private means: ReadonlyMap<number, Mean> | null = null;
  readonly ranks: Rank[] = [];
  readonly logs = new LogStore();
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
  readonly curves = new Map<string, Means>();
  /** What any rank told last of each of these. */
  readonly newest = new Map<string, number>();
  private readonly hosts = new Map<number, string>();
  private readonly rows = new Map<number, number>();
  private readonly rateBins = new Rates(this.time);
  private readonly folded: Folded = { count: [], total: [], least: [], mean: [], greatest: [] };
  private foldedFrom = 0;
  private foldedWidth = 0;
  private newest_s = -Infinity;
  /** As of the last event; several views ask for them at every update. */
  private countedRanks: readonly Rank[] | null = null;
  private countedOver = false;

  handle(event: DdlEvent): void {
    this.countedRanks = null;
    switch (event.type) {
      case 'run_started':
        this.start(event);
        break;
      case 'rank_ready':
        // Of all ranks that there are; those of the run are known by its start.
        this.hosts.set(event.rank, event.host);
        if (this.rows.has(event.rank)) {
          this.rank(event.rank).host = event.host;
        }
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
        this.lose(event.rank, event.fault.text);
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

  /** What all steps of each rank came to, as Python has it; it comes with the end of the run. */
  get finalMeans(): ReadonlyMap<number, Mean> | null {
    return this.means;
  }

  set finalMeans(means: ReadonlyMap<number, Mean> | null) {
    this.means = means;
    this.countedRanks = null;
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

  /** Whether any rank has told of a training step. */
  get hasTrained(): boolean {
    return this.step !== null;
  }

  /** The figures of a rank that count: of all its steps once it has ended, of its last seconds before. */
  shown(rank: Rank): Mean {
    if (!this.isOver && !ENDED.has(rank.state)) {
      return rank.means.recent();
    }
    return (this.isOver ? this.finalMeans?.get(rank.rank) : undefined) ?? rank.means.whole();
  }

  /** The ranks whose figures count: those that train now, or, in a run that is over, that have trained. */
  private counted(): readonly Rank[] {
    if (this.countedRanks === null || this.countedOver !== this.isOver) {
      this.countedRanks = this.count();
      this.countedOver = this.isOver;
    }
    return this.countedRanks;
  }

  private count(): Rank[] {
    const trained = this.ranks.filter((rank) => rank.trained !== null || (this.isOver && this.finalMeans?.has(rank.rank) === true));
    const isNew = (rank: Rank): boolean => this.newest_s - (rank.trained?.at_s ?? -Infinity) <= HOLD_S;
    const counted = this.isOver ? trained : trained.filter((rank) => !ENDED.has(rank.state) && isNew(rank));
    // In the order of the ranks, as Python adds them: sums differ in their last digit by their order.
    return counted.sort((a, b) => a.rank - b.rank);
  }

  /** Samples/s of all ranks that train, or of a run that is over in the mean, and how many ranks these are. */
  rate(): { total: number; ranks: number } {
    const rates = this.rates();
    return { total: total(rates) ?? 0, ranks: rates.length };
  }

  /** Samples/s of each rank that counts. */
  rates(): number[] {
    return this.counted().map((rank) => this.shown(rank).samples_per_s).filter((rate) => rate !== null);
  }

  /** Samples/s of all ranks that train, as they told last; null when none does. */
  rateNow(): number | null {
    return this.isOver ? null : total(this.counted().map((rank) => rank.trained?.samples_per_s ?? null));
  }

  /** Total samples/s over what as many single ranks would do; null when one rank alone was never measured. */
  efficiency(): number | null {
    const { total: rate, ranks } = this.rate();
    const single = this.singleRankSamplesPerS;
    return single !== null && single > 0 && Number.isFinite(single) && ranks > 0 ? rate / (single * ranks) : null;
  }

  /** The mean loss of the ranks' newest samples. */
  loss(): number | null {
    const ranks = [...this.ranks].sort((a, b) => a.rank - b.rank);
    return mean(ranks.map((rank) => this.shown(rank).loss));
  }

  /** What an average step of the ranks that count is spent on. */
  split(): Split | null {
    const splits = this.counted().map((rank) => splitOf(this.shown(rank))).filter((split) => split !== null);
    if (splits.length === 0) {
      return null;
    }
    const of = (key: keyof Split): number => splits.reduce((sum, split) => sum + split[key], 0) / splits.length;
    return { compute_s: of('compute_s'), exchange_s: of('exchange_s'), input_s: of('input_s') };
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

  /** A step of the ranks that count, in the mean. */
  step_s(): number | null {
    return mean(this.counted().map((rank) => this.shown(rank).step_s));
  }

  /** One rank's samples/s over time. */
  rateOf(rank: number): (number | null)[] {
    const row = this.rows.get(rank);
    return row === undefined ? [] : this.rateBins.of(row);
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
        means: new SampleMeans(),
        straggler: null,
        host: this.hosts.get(rank) ?? null,
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
    if (Math.abs(sample.at_s) < FAR) {
      this.newest_s = Math.max(this.newest_s, sample.at_s);
    }
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
    rank.means.take(sample);
    if (sample.samples_per_s !== null || sample.step_s !== null) {
      (rank.trained ??= new Figures()).take(sample);
    }
    if (sample.samples_per_s !== null) {
      this.rateBins.set(this.rows.get(sample.rank)!, bin, sample.samples_per_s, Math.ceil(HOLD_S / this.time.width));
    }
    const split = splitOf(sample);
    if (split !== null) {
      if (sample.step > sample.steps) {
        this.settledS.add(bin, split.compute_s + split.exchange_s + split.input_s);
      }
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
    if (value !== null) {
      this.newest.set(name, value);
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
    // With a rank that takes no part in this run the whole job is gone, as where none was the first.
    const first = rank === null ? undefined : this.rankOrUndefined(rank);
    this.logs.finish(first === undefined ? null : rank);
    this.logs.error(rank, [rank === null ? `The ranks are gone: ${cause}` : `Rank ${rank} is gone: ${cause}`]);
    for (const one of first === undefined ? this.ranks : [first]) {
      if (!ENDED.has(one.state) || first !== undefined) {
        one.state = 'lost';
        one.problem = cause;
      }
    }
  }

  /** Take the outcome of a run of whose end no event tells. */
  endAs(outcome: string): void {
    this.outcome = outcome;
    this.logs.finish(null);
    if (outcome !== 'cut off') {
      return;
    }
    this.lost ??= 'The kernel ended while the run went on.';
    for (const rank of this.ranks.filter(({ state }) => !ENDED.has(state))) {
      rank.state = 'lost';
      rank.problem = this.lost;
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
export function splitOf(sample: Pick<MetricsSample, 'step_s' | 'exchange_s' | 'input_s'>): Split | null {
  if (sample.step_s === null) {
    return null;
  }
  const exchange_s = sample.exchange_s ?? 0;
  const input_s = sample.input_s ?? 0;
  return { compute_s: Math.max(0, sample.step_s - exchange_s - input_s), exchange_s, input_s };
}
