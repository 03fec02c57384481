// The log of any rank of a run: which there are, the part that is held, and the search in it. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import { LogWindow } from './log_window';
import type { LogSize, Server } from './server';

/** Above the place that is sought, so much is held too. */
const ABOVE_BYTES = 4096;

export class LogModel {
  /** The part that is held. */
  log: LogWindow;
  sizes: readonly LogSize[] = [];
  /** The index of the line that was found; null where none was. */
  found: number | null = null;
  private stderr = false;
  private shown: number;
  private wanted: number;
  private searchFrom = 0;
  private readonly _searched = new Signal<this, number>(this);

  constructor(
    private readonly server: Pick<Server, 'logSizes' | 'log' | 'searchLog'>,
    readonly run: string,
    rank: number,
  ) {
    this.shown = this.wanted = rank;
    this.log = this.window();
  }

  /** A search has read this many bytes, and continues. */
  get searched(): ISignal<this, number> {
    return this._searched;
  }

  /** The rank whose log is shown. */
  get rank(): number {
    return this.shown;
  }

  /** Whether it is what the rank wrote to stderr, and that alone. */
  get isStderr(): boolean {
    return this.stderr;
  }

  /** Choose the rank whose log is to be opened; the first that has one where that rank has none. */
  choose(rank: number): void {
    this.wanted = rank;
    this.settle();
  }

  /** Read which ranks have a log, and how long each is: the logs grow, and ranks that wrote nothing have none yet. */
  async readSizes(): Promise<void> {
    this.sizes = await this.server.logSizes(this.run);
    this.settle();
  }

  /** Hold nothing of the log before; what is still being read of that is dropped. */
  open(isStderr: boolean): void {
    this.stderr = isStderr;
    this.log = this.window();
    this.found = null;
    this.searchFrom = 0;
  }

  /** Hold the last lines; return whether nothing overtook it. */
  async toEnd(): Promise<boolean> {
    const { log } = this;
    return (await log.jumpToEnd()) && log === this.log;
  }

  /** Hold what stands at a share of the log; return its line's index, null where something overtook it. */
  async seek(share: number): Promise<number | null> {
    const { log } = this;
    const offset = Math.floor(share * log.size);
    if (!(await log.jump(Math.max(0, offset - ABOVE_BYTES)))) {
      return null;
    }
    await log.forward();
    return log === this.log ? log.indexOf(offset) : null;
  }

  /** Begin the next search at the start. */
  searchAnew(): void {
    this.searchFrom = 0;
  }

  /** Look for the next line that has a text.
   *
   * @returns the line's place in bytes, 'absent' where it stands nowhere below, or 'overtaken' where another log was opened.
   */
  async search(text: string): Promise<number | 'absent' | 'overtaken'> {
    const { log, rank, stderr } = this;
    let from = this.searchFrom;
    let offset: number | null = null;
    do {
      // Each call looks at a bounded part of the file.
      const looked = await this.server.searchLog(this.run, rank, stderr, text, from);
      if (log !== this.log) {
        return 'overtaken';
      }
      offset = looked.offset;
      if (looked.next <= from) {
        break;
      }
      from = looked.next;
      this._searched.emit(from);
    } while (offset === null && from < log.size);
    this.searchFrom = offset === null ? 0 : from;
    return offset ?? 'absent';
  }

  /** Hold the line that was found at a place; return its index, null where something overtook it. */
  async showFound(offset: number): Promise<number | null> {
    const { log } = this;
    if (!(await log.jump(offset))) {
      return null;
    }
    await log.forward();
    const above = (await log.backward()) ?? 0;
    if (log !== this.log) {
      return null;
    }
    this.found = above;
    return above;
  }

  /** Note that this many lines were added, or removed, before those that are held. */
  moved(lines: number): void {
    this.found = this.found === null ? null : this.found + lines;
  }

  private settle(): void {
    const { sizes, wanted } = this;
    this.shown = sizes.some(({ rank }) => rank === wanted) ? wanted : (sizes[0]?.rank ?? wanted);
  }

  private window(): LogWindow {
    const { server, run, rank, stderr } = this;
    return new LogWindow((offset, limit) => server.log(run, rank, stderr, offset, limit));
  }
}
