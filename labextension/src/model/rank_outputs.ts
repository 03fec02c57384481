// What one rank showed in a run, in order, read from the run's folder as far as it has been written. No DOM.
import type { JSONObject } from '@lumino/coreutils';
import { type ISignal, Signal } from '@lumino/signaling';
import { isRecord } from './parse';
import { sentence, type Server } from './server';

export type RankOutput =
  | { readonly type: 'stream'; readonly name: 'stdout' | 'stderr'; readonly text: string }
  | { readonly type: 'display' | 'update' | 'result'; readonly data: JSONObject; readonly metadata: JSONObject; readonly displayId: string | null }
  | { readonly type: 'error'; readonly name: string; readonly message: string; readonly traceback: readonly string[] }
  | { readonly type: 'clear'; readonly wait: boolean };

export interface OutputsPage {
  /** Where the next page begins; where this one began, if there is nothing more yet. */
  readonly next: number;
  readonly outputs: readonly RankOutput[];
}

/** What a page can lay out; all of it is in the log. */
export const MAX_CHARACTERS = 1_000_000;

export function outputsPageOf(value: unknown): OutputsPage {
  const page = isRecord(value) ? value : {};
  const outputs = Array.isArray(page['outputs']) ? page['outputs'].filter(isRecord) : [];
  return { next: Number(page['next']), outputs: outputs.map(outputOf).filter((output) => output !== null) };
}

function outputOf(found: Record<string, unknown>): RankOutput | null {
  const { type } = found;
  switch (type) {
    case 'stream':
      return { type, name: found['name'] === 'stderr' ? 'stderr' : 'stdout', text: String(found['text']) };
    case 'display':
    case 'update':
    case 'result': {
      const { data, metadata, display_id: id } = found;
      // It came as JSON.
      const bundle = (given: unknown): JSONObject => (isRecord(given) ? (given as JSONObject) : {});
      return { type, data: bundle(data), metadata: bundle(metadata), displayId: typeof id === 'string' ? id : null };
    }
    case 'error': {
      const lines = Array.isArray(found['traceback']) ? found['traceback'].map(String) : [];
      return { type, name: String(found['name']), message: String(found['message']), traceback: lines };
    }
    case 'clear':
      return { type, wait: found['wait'] === true };
    default:
      return null;
  }
}

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
