// What each epoch of a run's trainings came to, validation included. No DOM; bounded memory.
import type { EpochEnded, MetricsSample } from './events';

const MAX_EPOCHS = 4000;

export interface Epoch {
  /** From 0; where a cell trains several times, it counts on. */
  readonly epoch: number;
  readonly step: number;
  readonly at_s: number;
  readonly metrics: Readonly<Record<string, number>>;
}

export class Epochs {
  private found: Epoch[] = [];
  /** The lowest rank that reports any. */
  private rank = Infinity;
  /** Whether events say what epochs came to; older runs have samples only. */
  private isReported = false;
  /** Of the trainings before the current one. */
  private before = 0;
  /** The newest, as its training counts. */
  private newest = -1;

  get list(): readonly Epoch[] {
    return this.found;
  }

  take(event: EpochEnded): void {
    if (event.rank > this.rank && this.isReported) {
      return;
    }
    if (event.rank < this.rank || !this.isReported) {
      this.begin(event.rank);
    }
    this.isReported = true;
    this.add(event.epoch, event, event.epoch <= this.newest);
  }

  /** Of a run that reports no epochs, the newest sample in an epoch stands for it. */
  sample({ rank, epoch, step, at_s, loss, metrics }: MetricsSample): void {
    if (this.isReported || epoch === null || step === null || rank > this.rank) {
      return;
    }
    if (rank < this.rank) {
      this.begin(rank);
    }
    if (epoch === this.newest) {
      this.found.pop();
    }
    this.add(epoch, { step, at_s, metrics: loss === null ? metrics : { loss, ...metrics } }, epoch < this.newest);
  }

  private begin(rank: number): void {
    this.found = [];
    this.rank = rank;
    this.before = 0;
    this.newest = -1;
  }

  /** @param isOther whether another training has begun. */
  private add(epoch: number, { step, at_s, metrics }: Omit<Epoch, 'epoch'>, isOther: boolean): void {
    if (isOther) {
      this.before = (this.found.at(-1)?.epoch ?? -1) + 1 - epoch;
    }
    this.newest = epoch;
    this.found.push({ epoch: this.before + epoch, step, at_s, metrics });
    if (this.found.length > MAX_EPOCHS) {
      this.found = this.found.filter((_, at) => at % 2 === 1 || at === this.found.length - 1);
    }
  }
}
