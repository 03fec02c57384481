// A run's figures as one number each: of the ranks that train now, or, once it is over, of all that have trained. No DOM.
import { type Mean, mean, type Split, splitOf, total } from './means';
import { ENDED, type Rank } from './rank';

// How long a rank's rate holds without a new sample.
export const HOLD_S = 5;

interface Ranks {
  readonly ranks: readonly Rank[];
  readonly isOver: boolean;
}

export class RunMeans {
  /** One rank's samples/s alone, for the scaling efficiency; null where it was never measured. */
  singleRankSamplesPerS: number | null = null;
  private all: ReadonlyMap<number, Mean> | null = null;
  /** As of the last event; several views ask for them at every update. */
  private countedRanks: readonly Rank[] | null = null;
  private countedOver = false;

  /** @param newestS returns the time of the run's newest sample. */
  constructor(
    private readonly run: Ranks,
    private readonly newestS: () => number,
  ) {}

  /** Forget which ranks count: the run has changed. */
  renew(): void {
    this.countedRanks = null;
  }

  /** What all steps of each rank came to, as Python has it; it comes with the end of the run. */
  get final(): ReadonlyMap<number, Mean> | null {
    return this.all;
  }

  set final(means: ReadonlyMap<number, Mean> | null) {
    this.all = means;
    this.renew();
  }

  /** The figures of a rank that count: of all its steps once it has ended, of its last seconds before. */
  of(rank: Rank): Mean {
    if (!this.run.isOver && !ENDED.has(rank.state)) {
      return rank.means.recent();
    }
    return (this.run.isOver ? this.all?.get(rank.rank) : undefined) ?? rank.means.whole();
  }

  /** Samples/s of all ranks that train, or of a run that is over in the mean, and how many ranks these are. */
  rate(): { total: number; ranks: number } {
    const rates = this.rates();
    return { total: total(rates) ?? 0, ranks: rates.length };
  }

  /** Samples/s of the slowest and the fastest rank; null where none counts. */
  range(): { readonly least: number; readonly greatest: number } | null {
    const rates = this.rates();
    return rates.length === 0 ? null : { least: Math.min(...rates), greatest: Math.max(...rates) };
  }

  /** Samples/s of each rank that counts. */
  private rates(): number[] {
    return this.counted().map((rank) => this.of(rank).samples_per_s).filter((rate) => rate !== null);
  }

  /** Samples/s of all ranks that train, by their newest samples; null when none does. */
  rateNow(): number | null {
    return this.run.isOver ? null : total(this.counted().map((rank) => rank.trained?.samples_per_s ?? null));
  }

  /** Total samples/s over what as many single ranks would do; null when one rank alone was never measured. */
  efficiency(): number | null {
    const { total: rate, ranks } = this.rate();
    const single = this.singleRankSamplesPerS;
    return single !== null && single > 0 && Number.isFinite(single) && ranks > 0 ? rate / (single * ranks) : null;
  }

  /** The mean loss of the ranks' newest samples. */
  loss(): number | null {
    const ranks = [...this.run.ranks].sort((a, b) => a.rank - b.rank);
    return mean(ranks.map((rank) => this.of(rank).loss));
  }

  /** What an average step of the ranks that count is spent on. */
  split(): Split | null {
    const splits = this.counted().map((rank) => splitOf(this.of(rank))).filter((split) => split !== null);
    if (splits.length === 0) {
      return null;
    }
    const of = (key: keyof Split): number => splits.reduce((sum, split) => sum + split[key], 0) / splits.length;
    return { compute_s: of('compute_s'), exchange_s: of('exchange_s'), input_s: of('input_s') };
  }

  /** A step of the ranks that count, in the mean. */
  step_s(): number | null {
    return mean(this.counted().map((rank) => this.of(rank).step_s));
  }

  /** The ranks whose figures count: those that train now, or, in a run that is over, that have trained. */
  private counted(): readonly Rank[] {
    const { isOver } = this.run;
    if (this.countedRanks === null || this.countedOver !== isOver) {
      this.countedRanks = this.count();
      this.countedOver = isOver;
    }
    return this.countedRanks;
  }

  private count(): Rank[] {
    const { ranks, isOver } = this.run;
    const newest = this.newestS();
    const trained = ranks.filter((rank) => rank.trained !== null || (isOver && this.all?.has(rank.rank) === true));
    const isNew = (rank: Rank): boolean => newest - (rank.trained?.at_s ?? -Infinity) <= HOLD_S;
    const counted = isOver ? trained : trained.filter((rank) => !ENDED.has(rank.state) && isNew(rank));
    // In the order of the ranks, as Python adds them: sums differ in their last digit by their order.
    return counted.sort((a, b) => a.rank - b.rank);
  }
}
