// The newest lines of all ranks, and which of them a filter lets through.
import { LineReader } from './lines';
import { whole } from './number_texts';

export const MAX_LINES = 50_000;
const MAX_CHARACTERS = 16_000_000;
// Lines go out in bunches, so that a full store does not move all of them for each new one.
const SLACK = 2_000;

export type LineKind = 'stdout' | 'stderr' | 'error' | 'note';

export interface LogLine {
  readonly rank: number | null;
  readonly kind: LineKind;
  readonly text: string;
}

export interface LogFilter {
  /** Ranks to show; null for all. */
  readonly ranks: ReadonlySet<number> | null;
  readonly pattern: RegExp | null;
  readonly stderrOnly: boolean;
}

export const EVERYTHING: LogFilter = { ranks: null, pattern: null, stderrOnly: false };
/** As in jupyter_ddl/views/log_filter.py, where the server looks for errors in whole logs; a test holds them alike. */
const LOOKS_LIKE_AN_ERROR = /\b(?:\w*Error|\w*Exception|Traceback|FATAL)\b|Fatal Python error|Segmentation fault/;

/** Lines are named by a number that only grows; the oldest go when there are too many. */
export class LogStore {
  private lines: LogLine[] = [];
  private characters = 0;
  /** The number of the oldest line that is there. */
  first = 0;
  firstError: number | null = null;
  /** How much of the ranks' logs was left out: it is in the log files alone. */
  skippedBytes = 0;
  /** The first line that looks like an error, for a run in which no rank failed. */
  private suspect: number | null = null;
  private readonly readers = new Map<string, LineReader>();

  get end(): number {
    return this.first + this.lines.length;
  }

  line(number: number): LogLine | undefined {
    return this.lines[number - this.first];
  }

  write(rank: number, stream: 'stdout' | 'stderr', text: string, skippedBytes: number): void {
    if (skippedBytes > 0) {
      this.skippedBytes += skippedBytes;
      this.endLine(rank, stream);
      this.add(rank, 'note', `… ${whole(skippedBytes)} bytes are only in the log file`);
    }
    for (const line of this.reader(rank, stream).read(text)) {
      this.add(rank, stream, line);
    }
    this.evict();
  }

  /** End the unfinished lines of a rank, or of all. */
  finish(rank: number | null): void {
    for (const key of [...this.readers.keys()]) {
      const [of, stream] = key.split(' ');
      if ((rank === null || Number(of) === rank) && (stream === 'stdout' || stream === 'stderr')) {
        this.endLine(Number(of), stream);
        this.readers.delete(key);
      }
    }
  }

  error(rank: number | null, text: readonly string[]): void {
    this.firstError ??= this.end;
    for (const line of text) {
      this.add(rank, 'error', line);
    }
    this.evict();
  }

  /** Return the number of the line that a look for the first error should show. */
  get errorLine(): number | null {
    const number = this.firstError ?? this.suspect;
    return number === null ? null : Math.max(number, this.first);
  }

  private reader(rank: number, stream: string): LineReader {
    const key = `${rank} ${stream}`;
    let reader = this.readers.get(key);
    if (reader === undefined) {
      reader = new LineReader();
      this.readers.set(key, reader);
    }
    return reader;
  }

  private endLine(rank: number, stream: 'stdout' | 'stderr'): void {
    const rest = this.reader(rank, stream).end();
    if (rest !== '') {
      this.add(rank, stream, rest);
    }
  }

  private add(rank: number | null, kind: LineKind, text: string): void {
    if (this.suspect === null && kind === 'stderr' && LOOKS_LIKE_AN_ERROR.test(text)) {
      this.suspect = this.end;
    }
    this.lines.push({ rank, kind, text });
    this.characters += text.length;
  }

  private evict(): void {
    if (this.lines.length <= MAX_LINES + SLACK && this.characters <= MAX_CHARACTERS) {
      return;
    }
    let gone = Math.max(0, this.lines.length - MAX_LINES);
    for (let at = 0; at < gone; at++) {
      this.characters -= this.lines[at]!.text.length;
    }
    while (this.characters > MAX_CHARACTERS * 0.9 && gone < this.lines.length) {
      this.characters -= this.lines[gone]!.text.length;
      gone++;
    }
    this.lines.splice(0, gone);
    this.first += gone;
  }
}

/** The numbers of the lines that a filter lets through, kept as lines come and go. */
export class FilteredLines {
  private numbers: number[] = [];
  private head = 0;
  private seen: number;

  constructor(
    private readonly store: LogStore,
    private readonly filter: LogFilter,
  ) {
    this.seen = store.first;
  }

  /** Look at up to `most` lines not seen yet; return whether there are more. */
  advance(most = MAX_LINES): boolean {
    const { store } = this;
    this.seen = Math.max(this.seen, store.first);
    const until = Math.min(store.end, this.seen + most);
    for (let number = this.seen; number < until; number++) {
      if (passes(store.line(number)!, this.filter)) {
        this.numbers.push(number);
      }
    }
    this.seen = until;
    while (this.head < this.numbers.length && this.numbers[this.head]! < store.first) {
      this.head++;
    }
    if (this.head > MAX_LINES) {
      this.numbers = this.numbers.slice(this.head);
      this.head = 0;
    }
    return until < store.end;
  }

  get length(): number {
    return this.numbers.length - this.head;
  }

  at(index: number): LogLine | undefined {
    const number = this.numbers[this.head + index];
    return number === undefined ? undefined : this.store.line(number);
  }

  /** Return the place of the first line whose number is at least this. */
  placeOf(number: number): number {
    let low = this.head;
    let high = this.numbers.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.numbers[middle]! < number) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low - this.head;
  }
}

function passes(line: LogLine, filter: LogFilter): boolean {
  return (
    (!filter.stderrOnly || line.kind === 'stderr' || line.kind === 'error') &&
    (filter.ranks === null || line.rank === null || filter.ranks.has(line.rank)) &&
    (filter.pattern === null || filter.pattern.test(line.text))
  );
}

/** Return the ranks that "0-3, 7" names; null for an empty text, undefined for what is no such list. */
export function parseRanks(text: string): ReadonlySet<number> | null | undefined {
  if (text.trim() === '') {
    return null;
  }
  const ranks = new Set<number>();
  for (const part of text.split(',')) {
    const match = /^\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?$/.exec(part);
    if (match === null) {
      return undefined;
    }
    const from = Number(match[1]);
    const to = match[2] === undefined ? from : Number(match[2]);
    if (to < from || to - from > 100_000) {
      return undefined;
    }
    for (let rank = from; rank <= to; rank++) {
      ranks.add(rank);
    }
  }
  return ranks;
}
