// The log of any rank of a run, or of all: which there are, the part that is held, what is left out, and the search in it. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import { beyond, type LinesPage, type LinesPlace, LogWindow } from './log_window';
import type { LogSize, Server } from './server';

/** What is sought, or what is left. */
export interface LogPattern {
  readonly text: string;
  readonly isExpression: boolean;
  /** Capitals matter. */
  readonly isExact: boolean;
}

/** A look for lines: for a pattern, or for what looks like an error. */
export type LogTarget = LogPattern | 'error';

export type Direction = 'next' | 'previous';

const NO_PATTERN: LogPattern = { text: '', isExpression: false, isExact: false };

export class LogModel {
  /** The part that is held. */
  log: LogWindow;
  sizes: readonly LogSize[] = [];
  /** Names the line that was found; null where none was. */
  found: string | null = null;
  private stderr = false;
  private filter: LogPattern = NO_PATTERN;
  private shown: number | null;
  private wanted: number | null;
  private readonly _looked = new Signal<this, number>(this);

  /** @param rank the rank; null for all of them, merged by time. */
  constructor(
    private readonly server: Pick<Server, 'logSizes' | 'lines'>,
    readonly run: string,
    rank: number | null,
  ) {
    this.shown = this.wanted = rank;
    this.log = this.window();
  }

  /** A search, or a filter, has looked at this share of the log, and continues. */
  get looked(): ISignal<this, number> {
    return this._looked;
  }

  /** The rank whose log is shown; null for all. */
  get rank(): number | null {
    return this.shown;
  }

  /** Whether lines are left out. */
  get isFiltered(): boolean {
    return this.filter.text !== '';
  }

  /** Choose the rank whose log is to be opened; the first that has one where that rank has none. */
  choose(rank: number | null): void {
    this.wanted = rank;
    this.settle();
  }

  /** Read which ranks have a log, and how long each is: the logs grow, and ranks that wrote nothing have none yet. */
  async readSizes(): Promise<void> {
    this.sizes = await this.server.logSizes(this.run);
    this.settle();
  }

  /** Hold nothing of the log before; what is still being read of that is dropped. */
  open(isStderr: boolean, filter: LogPattern = NO_PATTERN): void {
    this.stderr = isStderr;
    this.filter = filter;
    this.log = this.window();
    this.found = null;
  }

  /** Hold the last lines; return whether nothing overtook it. */
  async toEnd(): Promise<boolean> {
    const { log } = this;
    return (await log.jump('end')) && log === this.log;
  }

  /** Hold what stands at a share of the log; return its line's index, null where something overtook it. */
  async seek(share: number): Promise<number | null> {
    const { log } = this;
    return (await log.jump({ share })) ? this.withLinesAbove(log) : null;
  }

  /** Begin the next search at the start, or from the end backwards. */
  searchAgain(): void {
    this.found = null;
  }

  /** Look for the next line, or the one before, from the line that was found last; else from the start, or the end.
   *
   * @returns the line's index where it is held then; 'absent' where there is none, 'overtaken' where another log was opened.
   */
  async search(target: LogTarget, direction: Direction): Promise<number | 'absent' | 'overtaken'> {
    const { log, rank, stderr } = this;
    const pattern = target === 'error' ? NO_PATTERN : target;
    const query = { rank, stderr, ...pattern, onlyErrors: target === 'error' };
    let place = this.from(direction);
    for (;;) {
      // Each call looks at a bounded part of the log.
      const page = await this.server.lines(this.run, query, place, 1);
      if (log !== this.log) {
        return 'overtaken';
      }
      const line = page.lines[0];
      if (line !== undefined) {
        this.found = line.place;
        return this.showFound(log, line.place);
      }
      if (direction === 'next' ? page.atEnd : page.atStart) {
        this.found = null;
        return 'absent';
      }
      this._looked.emit(direction === 'next' ? page.nextShare : 1 - page.beginShare);
      place = direction === 'next' ? { after: page.next } : { before: page.begin };
    }
  }

  private from(direction: Direction): LinesPlace {
    if (direction === 'next') {
      return { after: this.found === null ? 'start' : beyond(this.found) };
    }
    return this.found === null ? 'end' : { before: this.found };
  }

  private async showFound(log: LogWindow, place: string): Promise<number | 'overtaken'> {
    const index = (await log.jump({ after: place })) ? await this.withLinesAbove(log) : null;
    return index ?? 'overtaken';
  }

  /** Hold what precedes too; return the index of the first line that was held. */
  private async withLinesAbove(log: LogWindow): Promise<number | null> {
    const above = (await log.backward()) ?? 0;
    return log === this.log ? above : null;
  }

  private settle(): void {
    const { sizes, wanted } = this;
    this.shown = wanted === null || sizes.some(({ rank }) => rank === wanted) ? wanted : (sizes[0]?.rank ?? wanted);
  }

  private window(): LogWindow {
    const { server, run, rank, stderr, filter } = this;
    const query = { rank, stderr, ...filter, onlyErrors: false };
    const read = (place: LinesPlace): Promise<LinesPage> => server.lines(run, query, place);
    return new LogWindow(read, (share) => this._looked.emit(share));
  }
}
