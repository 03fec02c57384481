// Compares two runs: their records, and their events while they are shown. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import type { LiveRun, LiveRuns } from './live';
import type { RunRecord } from './runs';
import { sentence, type Server } from './server';

export class ComparisonModel {
  records: readonly [RunRecord, RunRecord] | null = null;
  /** What went wrong, as a sentence; empty where nothing did. */
  problem = '';
  private pair: readonly [LiveRun, LiveRun] | null = null;
  private isWatched = false;
  private readonly _changed = new Signal<this, void>(this);

  constructor(
    private readonly server: Pick<Server, 'run'>,
    private readonly runs: Pick<LiveRuns, 'open' | 'reopen' | 'close'>,
    readonly first: string,
    readonly second: string,
  ) {}

  /** The runs' records, or their events. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The runs' events; null before they were watched. */
  get lives(): readonly [LiveRun, LiveRun] | null {
    return this.pair;
  }

  async read(): Promise<void> {
    try {
      const [first, second] = await Promise.all([this.server.run(this.first), this.server.run(this.second)]);
      this.records = [first.record, second.record];
    } catch (error) {
      this.problem = sentence(error);
    }
    this._changed.emit();
  }

  /** Have the runs' events come. */
  watch(): void {
    if (this.isWatched) {
      return;
    }
    this.isWatched = true;
    const { runs, pair } = this;
    this.pair = pair === null ? [runs.open(this.first), runs.open(this.second)] : [runs.reopen(pair[0]), runs.reopen(pair[1])];
    for (const live of this.pair) {
      live.changed.connect(this.notify, this);
    }
    this._changed.emit();
  }

  rest(): void {
    if (!this.isWatched) {
      return;
    }
    this.isWatched = false;
    for (const live of this.pair ?? []) {
      live.changed.disconnect(this.notify, this);
      this.runs.close(live);
    }
  }

  private notify(): void {
    this._changed.emit();
  }
}
