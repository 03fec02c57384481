// From what the kernel sends to one model. Batches are numbered: none is taken twice, and a missing one is noticed.
import { isRecord, parseEvent } from './parse';
import { RunModel } from './run';

interface Batch {
  readonly first: number;
  readonly next: number;
  readonly single: number | null;
  /** What the places of a sample's row are, and what all rows share. */
  readonly columns: readonly unknown[];
  readonly common: Readonly<Record<string, unknown>>;
  readonly events: readonly unknown[];
}

export class Feed {
  model = new RunModel();
  private expected = 0;
  private misses = false;

  /** The number of the event that comes next. */
  get next(): number {
    return this.expected;
  }

  /** Whether events are missing, so that the run's history is needed. */
  get isBehind(): boolean {
    return this.misses;
  }

  /** Take the newest events; return whether the model has changed. */
  takeBatch(bytes: DataView | null): boolean {
    const batch = read(bytes);
    if (batch === null || batch.next <= this.expected) {
      return false;
    }
    if (batch.first > this.expected) {
      // What is missing comes with the next history. Until then the newest is shown.
      this.misses = true;
    }
    const known = Math.max(0, this.expected - batch.first);
    this.apply(batch, known);
    return true;
  }

  /** Take all events so far, thinned; return whether the model has changed. */
  takeHistory(bytes: DataView | null): boolean {
    // Most come unneeded, and are not read.
    if (bytes === null || (this.expected > 0 && !this.misses)) {
      return false;
    }
    const batch = read(bytes);
    if (batch === null || batch.next < this.expected) {
      return false;
    }
    this.model = new RunModel();
    this.misses = false;
    this.apply(batch, 0);
    return true;
  }

  private apply(batch: Batch, known: number): void {
    this.model.singleRankSamplesPerS = batch.single;
    for (const value of batch.events.slice(known)) {
      try {
        const event = parseEvent(Array.isArray(value) ? sampleOf(value, batch) : value);
        if (event !== null) {
          this.model.handle(event);
        }
      } catch (error) {
        if (!(error instanceof TypeError)) {
          throw error;
        }
        if (this.model.malformed++ === 0) {
          console.warn(`jupyter_ddl: ${error.message}`);
        }
      }
    }
    this.expected = batch.next;
  }
}

function read(bytes: DataView | null): Batch | null {
  if (bytes === null || bytes.byteLength === 0) {
    return null;
  }
  const value: unknown = JSON.parse(new TextDecoder().decode(bytes));
  if (!isRecord(value)) {
    throw new TypeError('A batch must be an object.');
  }
  const { first, next, single, columns, common, events } = value;
  if (typeof first !== 'number' || typeof next !== 'number' || !Array.isArray(events)) {
    throw new TypeError('A batch must have first, next and events.');
  }
  if (!Array.isArray(columns) || !isRecord(common)) {
    throw new TypeError('A batch must have columns and common.');
  }
  return { first, next, single: typeof single === 'number' ? single : null, columns, common, events };
}

function sampleOf(row: readonly unknown[], { columns, common }: Batch): Record<string, unknown> {
  const sample: Record<string, unknown> = { type: 'metrics', ...common };
  for (let at = 0; at < row.length; at++) {
    sample[String(columns[at])] = row[at];
  }
  return sample;
}
