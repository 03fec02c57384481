// Numbers over time or steps in bounded memory: bins that double in width when they would become too many.

export const MAX_BINS = 512;
/** Beyond this a value has no place on an axis, and none in a chart. */
export const FAR = 1e30;

/** Places a growing axis on at most `MAX_BINS` bins. Owners of values by bin are notified to halve them. */
export class Axis {
  origin = NaN;
  count = 0;
  private readonly followers: Halved[] = [];

  constructor(public width: number) {}

  follow(follower: Halved): void {
    this.followers.push(follower);
  }

  /** Return the bin of a place, making room for it; what lies before the origin is in the first bin. */
  bin(place: number): number {
    if (!(Math.abs(place) < FAR)) {
      // No place on any axis, NaN included: it came with the one before.
      return Math.max(0, this.count - 1);
    }
    if (Number.isNaN(this.origin)) {
      this.origin = place;
    }
    let bin = Math.max(0, Math.floor((place - this.origin) / this.width));
    while (bin >= MAX_BINS) {
      this.width *= 2;
      bin >>= 1;
      this.count = (this.count + 1) >> 1;
      for (const follower of this.followers) {
        follower.halve();
      }
    }
    this.count = Math.max(this.count, bin + 1);
    return bin;
  }

  /** Return the places of the bins' middles, relative to the origin. */
  places(): Float64Array {
    return Float64Array.from({ length: this.count }, (_, bin) => (bin + 0.5) * this.width);
  }
}

export interface Halved {
  halve(): void;
}

/** The mean of what fell into each bin, with the least and the greatest. */
export class Means implements Halved {
  private readonly sums = new Float64Array(MAX_BINS);
  private readonly counts = new Float64Array(MAX_BINS);
  private readonly least = new Float64Array(MAX_BINS).fill(Infinity);
  private readonly greatest = new Float64Array(MAX_BINS).fill(-Infinity);
  isEmpty = true;

  constructor(private readonly axis: Axis) {
    axis.follow(this);
  }

  add(bin: number, value: number): void {
    if (!(Math.abs(value) < FAR)) {
      return;
    }
    this.isEmpty = false;
    this.sums[bin] = this.sums[bin]! + value;
    this.counts[bin] = this.counts[bin]! + 1;
    this.least[bin] = Math.min(this.least[bin]!, value);
    this.greatest[bin] = Math.max(this.greatest[bin]!, value);
  }

  halve(): void {
    halveInto(this.sums, (a, b) => a + b, 0);
    halveInto(this.counts, (a, b) => a + b, 0);
    halveInto(this.least, Math.min, Infinity);
    halveInto(this.greatest, Math.max, -Infinity);
  }

  means(): (number | null)[] {
    return this.list((bin) => this.sums[bin]! / this.counts[bin]!);
  }

  minima(): (number | null)[] {
    return this.list((bin) => this.least[bin]!);
  }

  maxima(): (number | null)[] {
    return this.list((bin) => this.greatest[bin]!);
  }

  private list(value: (bin: number) => number): (number | null)[] {
    return Array.from({ length: this.axis.count }, (_, bin) => (this.counts[bin]! > 0 ? value(bin) : null));
  }
}

/** One rate for each rank and bin. A sample covers all the time since the rank's last one. */
export class Rates implements Halved {
  private rows: Float32Array[] = [];
  private ends: number[] = [];

  constructor(private readonly axis: Axis) {
    axis.follow(this);
  }

  /** Set a rank's rate in a bin, and in those since its last sample unless that is long ago. */
  set(row: number, bin: number, rate: number, fillBins: number): void {
    const value = Math.abs(rate) < FAR ? rate : NaN;
    while (this.rows.length <= row) {
      this.rows.push(new Float32Array(MAX_BINS).fill(NaN));
      this.ends.push(-1);
    }
    const values = this.rows[row]!;
    const end = this.ends[row]!;
    const from = end >= 0 && bin - end <= fillBins ? end + 1 : bin;
    for (let at = Math.min(from, bin); at <= bin; at++) {
      values[at] = value;
    }
    this.ends[row] = Math.max(end, bin);
  }

  halve(): void {
    for (const values of this.rows) {
      halveInto(values, (a, b) => (Number.isNaN(b) ? a : Number.isNaN(a) ? b : (a + b) / 2), NaN);
    }
    this.ends = this.ends.map((end) => (end < 0 ? end : end >> 1));
  }

  /** Return one rank's rates; null where it had none. */
  of(row: number): (number | null)[] {
    const values = this.rows[row];
    return Array.from({ length: this.axis.count }, (_, bin) => {
      const value = values?.[bin] ?? NaN;
      return Number.isNaN(value) ? null : value;
    });
  }

  /** Return the sum, the least, the mean and the greatest over ranks, from `since` on, into the columns given. */
  fold(since: number, into: Folded): void {
    for (let bin = since; bin < this.axis.count; bin++) {
      let sum = 0;
      let count = 0;
      let least = Infinity;
      let greatest = -Infinity;
      for (const values of this.rows) {
        const value = values[bin]!;
        if (value === value) {
          sum += value;
          count++;
          if (value < least) least = value;
          if (value > greatest) greatest = value;
        }
      }
      into.count[bin] = count;
      into.total[bin] = count > 0 ? sum : null;
      into.least[bin] = count > 0 ? least : null;
      into.greatest[bin] = count > 0 ? greatest : null;
      into.mean[bin] = count > 0 ? sum / count : null;
    }
  }
}

export interface Folded {
  count: number[];
  total: (number | null)[];
  least: (number | null)[];
  mean: (number | null)[];
  greatest: (number | null)[];
}

function halveInto(values: Float64Array | Float32Array, join: (a: number, b: number) => number, empty: number): void {
  for (let bin = 0; bin < MAX_BINS / 2; bin++) {
    values[bin] = join(values[2 * bin]!, values[2 * bin + 1]!);
  }
  values.fill(empty, MAX_BINS / 2);
}
