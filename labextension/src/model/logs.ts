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

const KINDS = ['stdout', 'stderr', 'error', 'note'] as const satisfies readonly LineKind[];

/** Lines are named by a number that only grows; the oldest go when there are too many. */
export class LogStore {
  /** Of each line its text, and its rank and kind in one number: of a thousand ranks come a thousand a second. */
  private readonly texts: string[] = [];
  private readonly tags: number[] = [];
  private characters = 0;
  /** The number of the oldest line that is there. */
  first = 0;
  firstError: number | null = null;
  /** How much of the ranks' logs was left out: it is in the log files alone. */
  skippedBytes = 0;
  /** The first line that looks like an error, for a run in which no rank failed. */
  private suspect: number | null = null;
  private readonly readers = { stdout: new Map<number, LineReader>(), stderr: new Map<number, LineReader>() };
  /** The last text of whole lines: many ranks print the same, which is read and kept once. */
  private same: { readonly text: string; readonly lines: readonly string[] } = { text: '', lines: [] };

  get end(): number {
    return this.first + this.texts.length;
  }

  line(number: number): LogLine | undefined {
    const [text, tag] = [this.texts[number - this.first], this.tags[number - this.first]];
    return text === undefined || tag === undefined ? undefined : lineOf(text, tag);
  }

  write(rank: number, stream: 'stdout' | 'stderr', text: string, skippedBytes: number): void {
    if (skippedBytes > 0) {
      this.skippedBytes += skippedBytes;
      this.endLine(rank, stream);
      this.add(rank, 'note', `… ${whole(skippedBytes)} bytes are only in the log file`);
    }
    for (const line of this.linesOf(this.reader(rank, stream), text)) {
      this.add(rank, stream, line);
    }
    this.evict();
  }

  /** End the unfinished lines of a rank, or of all. */
  finish(rank: number | null): void {
    for (const stream of ['stdout', 'stderr'] as const) {
      const readers = this.readers[stream];
      for (const of of rank === null ? [...readers.keys()] : [rank]) {
        if (readers.has(of)) {
          this.endLine(of, stream);
          readers.delete(of);
        }
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

  private reader(rank: number, stream: 'stdout' | 'stderr'): LineReader {
    const readers = this.readers[stream];
    let reader = readers.get(rank);
    if (reader === undefined) {
      reader = new LineReader();
      readers.set(rank, reader);
    }
    return reader;
  }

  private linesOf(reader: LineReader, text: string): readonly string[] {
    if (reader.isWithinLine || !text.endsWith('\n')) {
      return reader.read(text);
    }
    if (this.same.text !== text) {
      this.same = { text, lines: reader.read(text) };
    }
    return this.same.lines;
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
    this.texts.push(text);
    this.tags.push(tagOf(rank, kind));
    this.characters += text.length;
  }

  private evict(): void {
    const { texts, tags } = this;
    if (texts.length <= MAX_LINES + SLACK && this.characters <= MAX_CHARACTERS) {
      return;
    }
    let gone = Math.max(0, texts.length - MAX_LINES);
    for (let at = 0; at < gone; at++) {
      this.characters -= texts[at]!.length;
    }
    while (this.characters > MAX_CHARACTERS * 0.9 && gone < texts.length) {
      this.characters -= texts[gone]!.length;
      gone++;
    }
    texts.splice(0, gone);
    tags.splice(0, gone);
    this.first += gone;
  }
}

/** Ranks begin at 0; that of a line without one is -1. */
function tagOf(rank: number | null, kind: LineKind): number {
  return ((rank ?? -1) + 1) * KINDS.length + KINDS.indexOf(kind);
}

function lineOf(text: string, tag: number): LogLine {
  const rank = Math.floor(tag / KINDS.length) - 1;
  return { rank: rank < 0 ? null : rank, kind: KINDS[tag % KINDS.length]!, text };
}

/** The lines that a filter lets through, by their places. */
export interface ShownLines {
  readonly length: number;
  at(place: number): LogLine | undefined;
  /** Look at up to `most` lines not seen yet; return whether there are more. */
  advance(most?: number): boolean;
  /** Return the place of the first line whose number is at least this. */
  placeOf(number: number): number;
}

/** Return the lines of a store that a filter lets through; none before `advance`. */
export function linesThrough(store: LogStore, filter: LogFilter): ShownLines {
  const isAll = filter.ranks === null && filter.pattern === null && !filter.stderrOnly;
  return isAll ? new AllLines(store) : new FilteredLines(store, filter);
}

/** All lines need no list of their numbers: the browser would collect a long one of a thousand lines a second. */
class AllLines implements ShownLines {
  private first = 0;
  private end = 0;

  constructor(private readonly store: LogStore) {}

  get length(): number {
    return this.end - this.first;
  }

  at(place: number): LogLine | undefined {
    const number = this.first + place;
    return number < this.end ? this.store.line(number) : undefined;
  }

  advance(): boolean {
    ({ first: this.first, end: this.end } = this.store);
    return false;
  }

  placeOf(number: number): number {
    return Math.min(this.length, Math.max(0, number - this.first));
  }
}

/** The numbers of the lines that a filter lets through, kept as lines come and go. */
class FilteredLines implements ShownLines {
  private readonly numbers: number[] = [];
  private seen: number;

  constructor(
    private readonly store: LogStore,
    private readonly filter: LogFilter,
  ) {
    this.seen = store.first;
  }

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
    this.numbers.splice(0, this.placeOf(store.first));
    return until < store.end;
  }

  get length(): number {
    return this.numbers.length;
  }

  at(index: number): LogLine | undefined {
    const number = this.numbers[index];
    return number === undefined ? undefined : this.store.line(number);
  }

  placeOf(number: number): number {
    let low = 0;
    let high = this.numbers.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.numbers[middle]! < number) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
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
