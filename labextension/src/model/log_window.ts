// A part of a log of any size: whole lines around one place, paged from the server. No DOM.
import { LINE_LIMIT, LineReader, plain } from './lines';

export interface LogPage {
  readonly text: string;
  /** What stands after the last line's end in a log that still grows. */
  readonly unfinished?: string;
  /** Where the text begins in the file; at or before what was asked for. */
  readonly offset: number;
  readonly next: number;
  readonly size: number;
}

export type ReadLog = (offset: number, limit: number) => Promise<LogPage>;

const PAGE = 65_536;
/** The server gives no fewer bytes at a time. */
const LEAST = 64;
/** Pages held at once: a log of 2 GB takes no more memory than one of 400 KB. */
const MAX_PAGES = 6;

interface Page {
  readonly offset: number;
  readonly next: number;
  readonly lines: readonly string[];
}

/** The lines that are held, and how they are moved through the file. One call at a time; a later `jump` overtakes. */
export class LogWindow {
  size = 0;
  private unfinished = '';
  private pages: Page[] = [];
  private generation = 0;
  private isReading = false;

  constructor(private readonly read: ReadLog) {}

  get begin(): number {
    return this.pages[0]?.offset ?? 0;
  }

  get end(): number {
    return this.pages.at(-1)?.next ?? 0;
  }

  get isAtStart(): boolean {
    return this.begin === 0;
  }

  /** Whether nothing but an unfinished line follows. */
  get isAtEnd(): boolean {
    return this.end >= this.size || this.unfinished !== '';
  }

  get length(): number {
    const whole = this.pages.reduce((sum, page) => sum + page.lines.length, 0);
    return whole + (this.unfinished === '' ? 0 : 1);
  }

  line(index: number): string | undefined {
    let at = index;
    for (const { lines } of this.pages) {
      if (at < lines.length) {
        return lines[at];
      }
      at -= lines.length;
    }
    return at === 0 && this.unfinished !== '' ? this.unfinished : undefined;
  }

  /** Return the index of the line that holds a byte, to a page's accuracy in the middle of a page. */
  indexOf(offset: number): number {
    let index = 0;
    for (const page of this.pages) {
      if (offset < page.next) {
        const share = (offset - page.offset) / Math.max(1, page.next - page.offset);
        return index + Math.max(0, Math.floor(share * page.lines.length));
      }
      index += page.lines.length;
    }
    return Math.max(0, index - 1);
  }

  /** Hold what stands at a place, given in bytes, and return whether nothing overtook it. */
  async jump(offset: number): Promise<boolean> {
    const generation = ++this.generation;
    const page = await this.read(Math.max(0, offset), PAGE);
    if (generation !== this.generation) {
      return false;
    }
    this.note(page);
    this.pages = [pageOf(page)];
    return true;
  }

  /** Hold the file's last lines. */
  async jumpToEnd(): Promise<boolean> {
    const generation = ++this.generation;
    // A request beyond the end returns the size.
    const { size } = await this.read(0, LEAST);
    if (generation !== this.generation) {
      return false;
    }
    return (await this.jump(Math.max(0, size - PAGE / 2))) && (await this.forward(), true);
  }

  /** Hold more after the end, and return how many lines went at the beginning; null when nothing came. */
  async forward(): Promise<number | null> {
    return this.exclusively(async (generation) => {
      const page = await this.read(this.end, PAGE);
      if (generation !== this.generation) {
        return null;
      }
      const before = this.unfinished;
      this.note(page);
      if (page.next <= this.end) {
        return this.unfinished === before ? null : 0;
      }
      this.pages.push(pageOf(page));
      return this.pages.length > MAX_PAGES ? (this.pages.shift()?.lines.length ?? 0) : 0;
    });
  }

  /** Hold more before the beginning, and return how many lines came; null when nothing did. */
  async backward(): Promise<number | null> {
    return this.exclusively(async (generation) => {
      const until = this.begin;
      const come: Page[] = [];
      let from = Math.max(0, until - PAGE);
      while (from < until) {
        const page = upTo(until, await this.read(from, Math.max(LEAST, until - from)));
        if (generation !== this.generation) {
          return null;
        }
        if (page.next <= from) {
          break;
        }
        come.push(pageOf(page));
        from = page.next;
      }
      if (from !== until || come.length === 0) {
        return null;
      }
      this.pages.unshift(...come);
      while (this.pages.length > MAX_PAGES) {
        this.pages.pop();
        this.unfinished = '';
      }
      return come.reduce((sum, page) => sum + page.lines.length, 0);
    });
  }

  private note({ size, unfinished }: LogPage): void {
    this.size = size;
    this.unfinished = plain((unfinished ?? '').slice(-LINE_LIMIT));
  }

  private async exclusively(act: (generation: number) => Promise<number | null>): Promise<number | null> {
    if (this.isReading) {
      return null;
    }
    this.isReading = true;
    try {
      return await act(this.generation);
    } finally {
      this.isReading = false;
    }
  }
}

/** Return a page without what stands at or after a line's beginning. */
function upTo(end: number, page: LogPage): LogPage {
  if (page.next <= end) {
    return page;
  }
  const bytes = new TextEncoder().encode(page.text).subarray(0, end - page.offset);
  return { ...page, text: new TextDecoder().decode(bytes), next: end };
}

function pageOf({ text, offset, next }: LogPage): Page {
  const reader = new LineReader();
  const lines = reader.read(text);
  const rest = reader.end();
  return { offset, next, lines: rest === '' ? lines : [...lines, rest] };
}
