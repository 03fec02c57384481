// How far a training is and how long it still takes: "epoch 37 of 400, 6 min left". Python has the same
// (jupyter_ddl/views/training_progress.py); both are tested on schema/progress.fixture.json. No DOM.
import type { EpochEnded, MetricsSample } from './events';
import { timeLeft, whole } from './number_texts';
import { FAR } from './series';
import type { Words } from './words';

/** How many of the newest epochs' times count, of which the median is taken. */
const EPOCHS = 8;
/** For how long steps must have been seen before they tell how long an epoch takes. */
const LEAST_S = 5;

interface Place {
  readonly atS: number;
  /** The epochs that are done by then. */
  readonly done: number;
}

type Sampled = Pick<MetricsSample, 'rank' | 'at_s' | 'epoch' | 'epochs' | 'epoch_part'>;
type Ended = Pick<EpochEnded, 'rank' | 'at_s' | 'epoch' | 'is_last'>;

/**
 * The progress of a run's current `fit`, by the lowest rank that reports any.
 *
 * How long an epoch takes is the median of the newest ones, from the end of one to the end of the next: the first one, in
 * which TensorFlow traces, is not among them, and validation is. Before there are two ends it is by the steps since the
 * first sample, which comes once the first steps are done. That a training ends early is not foreseen.
 */
export class TrainingProgress {
  private rank: number | null = null;
  private of: number | null = null;
  private current = 0;
  private isOver = false;
  private ends: Place[] = [];
  private first: Place | null = null;
  private newest: Place | null = null;
  private nowS: number | null = null;

  /** Take a sample of any rank. */
  sample({ rank, at_s: atS, epoch, epochs, epoch_part: part }: Sampled): void {
    if (!(Math.abs(atS) < FAR)) {
      return;
    }
    if (epochs === null || epoch === null) {
      this.nowS = rank === this.rank ? atS : this.nowS;
      return;
    }
    if (this.rank !== null && (rank > this.rank || this.isRest(epoch, part))) {
      return;
    }
    if (rank !== this.rank || epochs !== this.of || epoch < this.current || this.isOver) {
      this.begin();
    }
    [this.rank, this.of, this.current, this.nowS] = [rank, epochs, epoch, atS];
    if (part !== null) {
      this.newest = { atS, done: epoch + part };
      this.first ??= this.newest;
    }
  }

  /** Take the end of an epoch. */
  ended({ rank, at_s: atS, epoch, is_last: isLast }: Ended): void {
    if (rank !== this.rank || !(Math.abs(atS) < FAR)) {
      return;
    }
    const last = this.ends.at(-1);
    if (last !== undefined && epoch + 1 <= last.done) {
      this.ends = [];
    }
    this.ends = [...this.ends, { atS, done: epoch + 1 }].slice(-EPOCHS - 1);
    this.isOver = isLast;
  }

  /** Take the end of the run. */
  end(): void {
    this.isOver = true;
  }

  /** The current epoch, or the last one of a training that is over, from 1; null where not known. */
  get epoch(): number | null {
    if (this.of === null) {
      return null;
    }
    const ended = this.ends.at(-1)?.done ?? 0;
    return Math.max(this.current + 1, this.isOver ? ended : Math.min(ended + 1, this.of));
  }

  /** How many there are to be. */
  get epochs(): number | null {
    return this.of;
  }

  /** How long the rest of them takes; null where that is not known, and of a training that is over. */
  get leftS(): number | null {
    const { of, nowS, ends, first, newest } = this;
    if (of === null || nowS === null || this.isOver) {
      return null;
    }
    const last = ends.at(-1);
    if (last !== undefined && ends.length > 1) {
      const epochS = median(ends.slice(1).map(({ atS, done }, at) => (atS - ends[at]!.atS) / (done - ends[at]!.done)));
      const sinceS = Math.min(Math.max(0, nowS - last.atS), epochS);
      return Math.max(0, epochS * (of - last.done) - sinceS);
    }
    if (first === null || newest === null || newest.atS - first.atS < LEAST_S || newest.done <= first.done) {
      return null;
    }
    const perEpochS = (newest.atS - first.atS) / (newest.done - first.done);
    return Math.max(0, (of - newest.done) * perEpochS - (nowS - newest.atS));
  }

  /** Whether a sample is of the last steps of a `fit` that is over: its end may be reported before. */
  private isRest(epoch: number, part: number | null): boolean {
    return this.isOver && epoch + 1 === this.ends.at(-1)?.done && (part === null || part >= 1);
  }

  /** Forget the `fit` before. */
  private begin(): void {
    this.current = 0;
    this.isOver = false;
    this.ends = [];
    this.first = null;
    this.newest = null;
  }
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Return how far a training is and how long it still takes; empty where nothing is known. */
export function progressText({ epoch, epochs, leftS }: TrainingProgress, trans: Words): string {
  if (epoch === null || epochs === null) {
    return '';
  }
  const far = trans.__('epoch %1 of %2', whole(epoch), whole(epochs));
  return leftS === null ? far : trans.__('%1, %2 left', far, timeLeft(leftS));
}
