// A run, from its events. No DOM; bounded memory for a run of any length.
import type { DdlEvent, MetricsSample, RankFailed, RunStarted, StragglerMarked } from './events';
import { Epochs } from './epochs';
import { Figures } from './figures';
import { plain } from './lines';
import { LogStore } from './logs';
import { ENDED, type Rank, type RankState, waitingRank } from './rank';
import { RunCurves } from './run_curves';
import { RunMeans } from './run_means';
import type { Folded } from './series';
import { Stall } from './stall';
import { TrainingProgress } from './training_progress';

export class RunModel {
  run: string | null = null;
  outcome: string | null = null;
  seconds: number | null = null;
  model: string | null = null;
  epoch: number | null = null;
  step: number | null = null;
  lost: string | null = null;
  firstFailure: RankFailed | null = null;
  /** Events that were no events, with the first one's fault. */
  malformed = 0;
  readonly ranks: Rank[] = [];
  readonly logs = new LogStore();
  readonly stall = new Stall();
  readonly curves = new RunCurves();
  readonly epochs = new Epochs();
  readonly progress = new TrainingProgress();
  readonly means = new RunMeans(this, () => this.curves.newestS);
  private readonly hosts = new Map<number, string>();
  private readonly rows = new Map<number, number>();

  handle(event: DdlEvent): void {
    this.means.renew();
    switch (event.type) {
      case 'run_started':
        this.start(event);
        break;
      case 'rank_ready':
        // Of all ranks that there are; those of the run are known by its start.
        this.place(event.rank, event.host);
        break;
      case 'output':
        this.arrive(event.rank);
        this.logs.write(event.rank, event.stream, event.text, event.skipped_bytes);
        break;
      case 'metrics':
        this.sample(event);
        break;
      case 'epoch_ended':
        this.epochs.take(event);
        this.progress.ended(event);
        if (event.is_last) {
          this.curves.trainingEnded(event.step);
        }
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
        this.progress.end();
        this.stall.end();
        this.logs.finish(null);
        break;
      case 'collective_stalled':
        this.stall.stalled(event, this.step);
        break;
      case 'stall_reported':
        this.stall.reported(event);
        break;
      // What a run's views do not show: warm and silent ranks are the cluster's, rich outputs the notebook's, and stacks
      // and names are answers to requests.
      case 'rank_warm':
      case 'rich_output':
      case 'output_cleared':
      case 'rank_alive':
      case 'rank_silent':
      case 'rank_stacks':
      case 'rank_profile':
      case 'looked_up':
      case 'rank_debugged':
      case 'rank_held':
      case 'host_described':
      case 'parameters':
        break;
      default:
        unknown(event);
    }
  }

  /** The rank that failed first by itself, or one that was lost; null where there is none. */
  get failedRank(): number | null {
    return this.firstFailure?.rank ?? this.ranks.find(({ state }) => state === 'lost')?.rank ?? null;
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

  /** Whether any rank has reported a training step. */
  get hasTrained(): boolean {
    return this.step !== null;
  }

  /** One rank's samples/s over time. */
  rateOf(rank: number): (number | null)[] {
    const row = this.rows.get(rank);
    return row === undefined ? [] : this.curves.rateOf(row);
  }

  /** Samples/s over time, and how many of the bins have samples of all ranks. */
  ratesOverTime(): { readonly rates: Folded; readonly settled: number } {
    const rates = this.curves.ratesOverTime();
    return { rates, settled: this.curves.settled(this.isOver ? 0 : this.means.rate().ranks) };
  }

  private start(event: RunStarted): void {
    this.run = event.run;
    for (const rank of event.ranks) {
      this.arrive(rank);
    }
  }

  /** Note where a rank is. */
  place(rank: number, host: string): void {
    this.hosts.set(rank, host);
    if (this.rows.has(rank)) {
      this.rank(rank).host = host;
    }
  }

  private row(rank: number): number {
    let row = this.rows.get(rank);
    if (row === undefined) {
      row = this.ranks.length;
      this.rows.set(rank, row);
      this.ranks.push(waitingRank(rank, this.hosts.get(rank) ?? null));
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
    const hasTrained = sample.step !== null && (sample.samples_per_s !== null || sample.step_s !== null);
    if (rank.latest === null || (rank.latest === rank.trained && !hasTrained)) {
      // What training came to stays.
      rank.latest = new Figures();
    }
    rank.latest.take(sample);
    rank.trained = hasTrained ? rank.latest : rank.trained;
    this.model ??= sample.model;
    this.stall.sampled(sample);
    this.curves.take(sample, this.row(sample.rank));
    this.epochs.sample(sample);
    this.progress.sample(sample);
    if (sample.step === null) {
      return;
    }
    if (rank.state === 'running') {
      rank.state = 'training';
    }
    this.step = Math.max(this.step ?? 0, sample.step);
    this.epoch = sample.epoch ?? this.epoch;
    rank.means.take(sample);
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
    this.stall.end();
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

  /** Take the outcome of a run without an end event. */
  endAs(outcome: string): void {
    this.outcome = outcome;
    this.progress.end();
    this.stall.end();
    this.logs.finish(null);
    for (const rank of this.ranks.filter(({ state }) => outcome === 'cut off' && !ENDED.has(state))) {
      rank.state = 'lost';
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

/** Have the compiler say so where an event of events.ts is not handled. */
function unknown(event: never): never {
  throw new TypeError(`An event must be of a type that is known. Received: ${JSON.stringify(event)}.`);
}
