// A part of a log of any size: lines around one place, paged from the server. No DOM.

/** A line of one rank. */
export interface LogLine {
  readonly rank: number;
  /** Its number in the rank's log; null where the server would have to count too long. */
  readonly number: number | null;
  readonly text: string;
  /** Names it to the server; empty for what is not a whole line yet. */
  readonly place: string;
  /** When it ended, in microseconds since the epoch; 0 where only one rank is shown. */
  readonly atUs: number;
}

/** How the times of lines are known by which ranks are merged: by the ranks' own marks, or only roughly; null for one rank. */
export type Timed = 'marked' | 'events' | 'evenly' | null;

export interface LinesPage {
  readonly lines: readonly LogLine[];
  readonly begin: string;
  readonly next: string;
  readonly atStart: boolean;
  readonly atEnd: boolean;
  /** Lines that have not ended yet. */
  readonly unfinished: readonly LogLine[];
  /** Where it begins and ends, as shares of the log. */
  readonly beginShare: number;
  readonly nextShare: number;
  readonly bytes: number;
  readonly timed: Timed;
}

/** Which lines a page has: those after a place or before one, from a share of the log on, or the last ones. */
export type LinesPlace = { readonly after: string } | { readonly before: string } | { readonly share: number } | 'end';

export type ReadLines = (place: LinesPlace) => Promise<LinesPage>;

/** Held at once: a log of 2 GB takes no more memory than one of 500 KB. A page of a filter may have one line, or none. */
const MAX_CHARACTERS = 400_000;
const MAX_HELD_LINES = 12_000;
/** The fewest lines that are read at first where a filter leaves most out. */
const ENOUGH_LINES = 200;

interface Page extends Pick<LinesPage, 'lines' | 'beginShare' | 'nextShare'> {
  readonly characters: number;
}

/** The lines that are held, and how they are moved through the log. One call at a time; a later `jump` overtakes. */
export class LogWindow {
  bytes = 0;
  timed: Timed = null;
  isAtStart = false;
  /** Whether nothing but unfinished lines follows. */
  isAtEnd = false;
  private begin = '';
  private next = '';
  private unfinished: readonly LogLine[] = [];
  private pages: Page[] = [];
  private generation = 0;
  /** The generation whose lines are being read; -1 where none are. */
  private reading = -1;

  /** @param looked called with the share of the log that has been looked at, where a filter leaves lines out. */
  constructor(
    private readonly read: ReadLines,
    private readonly looked: (share: number) => void = () => undefined,
  ) {}

  get length(): number {
    return this.wholeLines + this.unfinished.length;
  }

  line(index: number): LogLine | undefined {
    let at = index;
    for (const { lines } of this.pages) {
      if (at < lines.length) {
        return lines[at];
      }
      at -= lines.length;
    }
    return this.unfinished[at];
  }

  /** Return at which share of the log a line is, to a page's accuracy. */
  shareAt(index: number): number {
    let at = index;
    for (const { lines, beginShare, nextShare } of this.pages) {
      if (at < lines.length) {
        return beginShare + (at / lines.length) * (nextShare - beginShare);
      }
      at -= lines.length;
    }
    return this.pages.at(-1)?.nextShare ?? 1;
  }

  /** Hold what stands at a place, and return whether nothing overtook it. */
  async jump(place: LinesPlace): Promise<boolean> {
    const generation = ++this.generation;
    let page = await this.read(place);
    if (generation !== this.generation) {
      return false;
    }
    this.pages = [pageOf(page)];
    this.note(page);
    this.begin = page.begin;
    this.next = page.next;
    this.isAtStart = page.atStart;
    const isEnd = place === 'end';
    // A filter may leave out most.
    while (this.wholeLines < ENOUGH_LINES && !(isEnd ? page.atStart : page.atEnd)) {
      this.looked(isEnd ? 1 - page.beginShare : page.nextShare);
      page = await this.read(isEnd ? { before: this.begin } : { after: this.next });
      if (generation !== this.generation) {
        return false;
      }
      if (isEnd) {
        this.putBefore(page);
      } else {
        this.putAfter(page);
      }
    }
    return true;
  }

  /** Hold more after the end, and return how many lines went at the beginning; null when nothing came. */
  async forward(): Promise<number | null> {
    return this.exclusively(async (generation) => {
      let gone = 0;
      for (;;) {
        const page = await this.read({ after: this.next });
        if (generation !== this.generation) {
          return null;
        }
        const before = this.unfinished;
        this.putAfter(page);
        gone += this.evict(() => this.pages.shift());
        if (page.lines.length > 0 || page.atEnd) {
          const isSame = before.length === this.unfinished.length && before.every(({ text }, at) => text === this.unfinished[at]!.text);
          return page.lines.length === 0 && isSame ? null : gone;
        }
        this.looked(page.nextShare);
      }
    });
  }

  /** Hold more before the beginning, and return how many lines came; null when nothing did. */
  async backward(): Promise<number | null> {
    return this.exclusively(async (generation) => {
      for (;;) {
        const page = await this.read({ before: this.begin });
        if (generation !== this.generation) {
          return null;
        }
        this.putBefore(page);
        if (page.lines.length > 0 || page.atStart) {
          if (this.evict(() => this.pages.pop(), true) > 0) {
            this.isAtEnd = false;
            this.unfinished = [];
          }
          return page.lines.length === 0 ? null : page.lines.length;
        }
        this.looked(1 - page.beginShare);
      }
    });
  }

  private get wholeLines(): number {
    return this.pages.reduce((sum, { lines }) => sum + lines.length, 0);
  }

  private putAfter(page: LinesPage): void {
    this.next = page.next;
    if (page.lines.length > 0) {
      this.pages.push(pageOf(page));
    }
    this.note(page);
  }

  private putBefore(page: LinesPage): void {
    this.begin = page.begin;
    this.isAtStart = page.atStart;
    if (page.lines.length > 0) {
      this.pages.unshift(pageOf(page));
    }
  }

  private note({ bytes, timed, unfinished, atEnd }: LinesPage): void {
    this.bytes = bytes;
    this.timed = timed;
    this.unfinished = atEnd ? unfinished : [];
    this.isAtEnd = atEnd;
  }

  /** Let pages go at one end while there are too many; return how many lines went. */
  private evict(take: () => Page | undefined, isAtEnd = false): number {
    let gone = 0;
    while (this.pages.length > 2 && (this.wholeLines > MAX_HELD_LINES || this.characters > MAX_CHARACTERS)) {
      gone += take()?.lines.length ?? 0;
    }
    const first = this.pages[0]?.lines[0];
    const last = this.pages.at(-1)?.lines.at(-1);
    if (gone > 0 && !isAtEnd && first !== undefined) {
      this.begin = first.place;
      this.isAtStart = false;
    } else if (gone > 0 && last !== undefined) {
      this.next = beyond(last.place);
    }
    return gone;
  }

  private get characters(): number {
    return this.pages.reduce((sum, { characters }) => sum + characters, 0);
  }

  private async exclusively(act: (generation: number) => Promise<number | null>): Promise<number | null> {
    const { generation } = this;
    // What a jump has overtaken may still be read, and counts no more.
    if (this.reading === generation) {
      return null;
    }
    this.reading = generation;
    try {
      return await act(generation);
    } finally {
      if (this.reading === generation) {
        this.reading = -1;
      }
    }
  }
}

/** Return the place after the line that a place names. */
export function beyond(place: string): string {
  return `${place}+`;
}

function pageOf({ lines, beginShare, nextShare }: LinesPage): Page {
  return { lines, beginShare, nextShare, characters: lines.reduce((sum, { text }) => sum + text.length, 0) };
}
