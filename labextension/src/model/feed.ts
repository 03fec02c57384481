// From what the kernel sends to one model. Batches are numbered: none is taken twice, and a missing one is noticed.
import { type Mean, meansOf } from './means';
import { isRecord, numberOrNull, parseEvent, Table } from './parse';
import { RunModel } from './run';

interface Batch {
  readonly first: number;
  readonly next: number;
  readonly single: number | null;
  /** An event that is a row begins with the number of its table, and may be of many ranks. */
  readonly tables: readonly Table[];
  readonly events: readonly unknown[];
  /** Of a run that is over. */
  readonly means: ReadonlyMap<number, Mean> | null;
  /** Rank and host, where the run's folder says them. */
  readonly hosts: readonly (readonly [number, string])[];
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
    // For traces of the page; it would be kept for good otherwise.
    performance.mark('ddl-batch');
    performance.clearMarks('ddl-batch');
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

  /** Note that events were left out: the next history has them. */
  skip(): void {
    this.misses = true;
  }

  /** Whether a history has anything new. Most are not needed, and are not even unpacked. */
  get needsHistory(): boolean {
    return this.expected === 0 || this.misses;
  }

  /** Take all events so far, thinned; return whether the model has changed. */
  takeHistory(bytes: DataView | null): boolean {
    if (!this.needsHistory) {
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
    this.model.means.singleRankSamplesPerS = batch.single;
    for (const [rank, host] of batch.hosts) {
      this.model.place(rank, host);
    }
    let number = 0;
    for (const value of batch.events) {
      const count = Array.isArray(value) ? (batch.tables[Number(value[0])]?.count(value) ?? 1) : 1;
      for (let which = Math.max(0, known - number); which < count; which++) {
        this.take(value, which, batch);
      }
      number += count;
    }
    this.model.means.final = batch.means ?? this.model.means.final;
    this.expected = batch.next;
  }

  private take(value: unknown, which: number, batch: Batch): void {
    try {
      const event = Array.isArray(value) ? tableOf(value, batch).read(value, which) : parseEvent(value);
      if (event !== null) {
        this.model.handle(event);
      }
    } catch (error) {
      // Whatever is wrong with one event, the others are shown, and those of other runs.
      if (this.model.malformed++ === 0) {
        console.warn(`jupyter_ddl: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
  }
}

/** Return what zlib has compressed as it was. */
export async function unpacked(bytes: DataView | null): Promise<DataView | null> {
  if (bytes === null || bytes.byteLength === 0) {
    return null;
  }
  // A copy: the types do not let a shared buffer through.
  const blob = new Blob([new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength).slice()]);
  const stream = blob.stream().pipeThrough(new DecompressionStream('deflate'));
  return new DataView(await new Response(stream).arrayBuffer());
}

function read(bytes: DataView | null): Batch | null {
  if (bytes === null || bytes.byteLength === 0) {
    return null;
  }
  const value: unknown = JSON.parse(new TextDecoder().decode(bytes));
  if (!isRecord(value)) {
    throw new TypeError('A batch must be an object.');
  }
  const { first, next, single, tables, events } = value;
  if (typeof first !== 'number' || typeof next !== 'number' || !Array.isArray(tables) || !Array.isArray(events)) {
    throw new TypeError('A batch must have first, next, tables and events.');
  }
  const rows = tables.map((table) => new Table(table));
  return { first, next, single: numberOrNull(single), tables: rows, events, means: meansOf(value['means']), hosts: hostsOf(value['hosts']) };
}

/** Return ranks with their hosts, of which a batch has each host once. */
function hostsOf(hosts: unknown): [number, string][] {
  const found = isRecord(hosts) ? Object.entries(hosts) : [];
  return found.flatMap(([host, ranks]) => (Array.isArray(ranks) ? ranks : []).filter((rank) => typeof rank === 'number').map((rank): [number, string] => [rank, host]));
}

function tableOf(row: readonly unknown[], { tables }: Batch): Table {
  const table = tables[Number(row[0])];
  if (table === undefined) {
    throw new TypeError(`A row must begin with the number of its table. Received: ${JSON.stringify(row)}.`);
  }
  return table;
}
