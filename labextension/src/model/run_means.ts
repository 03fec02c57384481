// A run's figures as one number each: of the ranks that train now, or, once it is over, of all that have trained. No DOM.
// Of a thousand ranks nothing is copied: several views ask at every update.
import { type Mean, type Split, splitOf } from './means';
import { ENDED, type Rank } from './rank';

// How long a rank's rate holds without a new sample.
export const HOLD_S = 5;

/** Samples/s of some ranks. */
interface Rates {
  readonly total: number;
  /** How many they are. */
  readonly ranks: number;
  readonly least: number;
  readonly greatest: number;
}

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
  private found: Rates | null = null;
  /** A run's ranks only become more. */
  private ordered: readonly Rank[] = [];

  /** @param newestS returns the time of the run's newest sample. */
  constructor(
    private readonly run: Ranks,
    private readonly newestS: () => number,
  ) {}

  /** Forget which ranks count: the run has changed. */
  renew(): void {
    this.countedRanks = this.found = null;
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
    const { total, ranks } = this.rates();
    return { total, ranks };
  }

  /** Samples/s of the slowest and the fastest rank; null where none counts. */
  range(): { readonly least: number; readonly greatest: number } | null {
    const { ranks, least, greatest } = this.rates();
    return ranks === 0 ? null : { least, greatest };
  }

  /** Samples/s of all ranks that train, by their newest samples; null when none does. */
  rateNow(): number | null {
    if (this.run.isOver) {
      return null;
    }
    const found = this.sumOf(this.counted(), (rank) => rank.trained?.samples_per_s ?? null);
    return found.count === 0 ? null : found.sum;
  }

  /** Total samples/s over what as many single ranks would do; null when one rank alone was never measured. */
  efficiency(): number | null {
    const { total: rate, ranks } = this.rate();
    const single = this.singleRankSamplesPerS;
    return single !== null && single > 0 && Number.isFinite(single) && ranks > 0 ? rate / (single * ranks) : null;
  }

  /** The mean loss of the ranks' newest samples. */
  loss(): number | null {
    return this.meanOf(this.inOrder(), (rank) => this.of(rank).loss);
  }

  /** What an average step of the ranks that count is spent on. */
  split(): Split | null {
    const sums = { compute_s: 0, exchange_s: 0, input_s: 0 };
    let count = 0;
    for (const rank of this.counted()) {
      const split = splitOf(this.of(rank));
      if (split !== null) {
        count++;
        sums.compute_s += split.compute_s;
        sums.exchange_s += split.exchange_s;
        sums.input_s += split.input_s;
      }
    }
    return count === 0 ? null : { compute_s: sums.compute_s / count, exchange_s: sums.exchange_s / count, input_s: sums.input_s / count };
  }

  /** A step of the ranks that count, in the mean. */
  step_s(): number | null {
    return this.meanOf(this.counted(), (rank) => this.of(rank).step_s);
  }

  /** Samples/s of the ranks that count. */
  private rates(): Rates {
    const counted = this.counted();
    if (this.found === null) {
      const found = { total: 0, ranks: 0, least: Infinity, greatest: -Infinity };
      for (const rank of counted) {
        const rate = this.of(rank).samples_per_s;
        if (rate !== null) {
          found.total += rate;
          found.ranks++;
          found.least = Math.min(found.least, rate);
          found.greatest = Math.max(found.greatest, rate);
        }
      }
      this.found = found;
    }
    return this.found;
  }

  private meanOf(ranks: readonly Rank[], figure: (rank: Rank) => number | null): number | null {
    const { sum, count } = this.sumOf(ranks, figure);
    return count === 0 ? null : sum / count;
  }

  private sumOf(ranks: readonly Rank[], figure: (rank: Rank) => number | null): { readonly sum: number; readonly count: number } {
    let [sum, count] = [0, 0];
    for (const rank of ranks) {
      const value = figure(rank);
      if (value !== null) {
        sum += value;
        count++;
      }
    }
    return { sum, count };
  }

  /** All ranks in their order, as Python adds them: sums differ in their last digit by their order. */
  private inOrder(): readonly Rank[] {
    const { ranks } = this.run;
    if (this.ordered.length !== ranks.length) {
      this.ordered = [...ranks].sort((a, b) => a.rank - b.rank);
    }
    return this.ordered;
  }

  /** The ranks whose figures count: those that train now, or, in a run that is over, that have trained. */
  private counted(): readonly Rank[] {
    const { isOver } = this.run;
    if (this.countedRanks === null || this.countedOver !== isOver) {
      this.countedRanks = this.count();
      this.countedOver = isOver;
      this.found = null;
    }
    return this.countedRanks;
  }

  private count(): Rank[] {
    const { isOver } = this.run;
    const newest = this.newestS();
    return this.inOrder().filter((rank) => {
      if (isOver) {
        return rank.trained !== null || this.all?.has(rank.rank) === true;
      }
      return rank.trained !== null && !ENDED.has(rank.state) && newest - rank.trained.at_s <= HOLD_S;
    });
  }
}
