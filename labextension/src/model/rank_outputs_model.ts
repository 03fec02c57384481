// What one rank showed in a run, in order, read from the run's folder as far as it has been written. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import type { RankOutput } from './rank_outputs';
import { sentence, type Server } from './server';

/** What a page can lay out; all of it is in the log. */
export const MAX_CHARACTERS = 1_000_000;

export class RankOutputsModel {
  /** What went wrong with the last read, as a sentence; empty where nothing did. */
  problem = '';
  /** Whether text was left out, for it was more than can be shown. */
  isCut = false;
  private next = 0;
  private characters = 0;
  private isReading = false;
  private isAsked = false;
  private isDisposed = false;
  private readonly _added = new Signal<this, readonly RankOutput[]>(this);

  constructor(
    private readonly server: Pick<Server, 'rankOutputs'>,
    readonly run: string,
    readonly rank: number,
  ) {}

  /** A read has ended, with these outputs. */
  get added(): ISignal<this, readonly RankOutput[]> {
    return this._added;
  }

  dispose(): void {
    this.isDisposed = true;
    Signal.clearData(this);
  }

  /** Read what is there by now; a call during a read has it read once more. */
  async readOn(): Promise<void> {
    this.isAsked = true;
    if (this.isReading) {
      return;
    }
    this.isReading = true;
    try {
      while (this.isAsked && !this.isDisposed) {
        this.isAsked = false;
        await this.readPage();
      }
    } finally {
      this.isReading = false;
    }
  }

  private async readPage(): Promise<void> {
    let outputs: readonly RankOutput[] = [];
    try {
      const page = await this.server.rankOutputs(this.run, this.rank, this.next);
      this.problem = '';
      this.isAsked ||= page.next > this.next;
      this.next = page.next;
      ({ outputs } = page);
    } catch (error) {
      this.problem = sentence(error);
    }
    if (!this.isDisposed) {
      this._added.emit(outputs.filter((output) => this.hasRoom(output)));
    }
  }

  private hasRoom(output: RankOutput): boolean {
    if (output.type === 'clear') {
      this.characters = 0;
      this.isCut = false;
    }
    if (output.type !== 'stream') {
      return true;
    }
    const has = this.characters + output.text.length <= MAX_CHARACTERS;
    this.characters += has ? output.text.length : 0;
    this.isCut ||= !has;
    return has;
  }
}
