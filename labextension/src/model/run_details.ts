// What the page of a run shows beside its events: its cell, and how much its ranks wrote. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import type { HubModel } from './hub';
import type { RunRecord } from './runs';
import { sentence, type Server } from './server';

export class RunDetailsModel {
  cell = '';
  hasTimeline = false;
  /** Null until it has been read. */
  record: RunRecord | null = null;
  /** What went wrong, as a sentence; empty where nothing did. */
  problem = '';
  /** Of all ranks; null where that is not known. */
  logBytes: number | null = null;
  private readonly _changed = new Signal<this, void>(this);

  constructor(
    private readonly server: Pick<Server, 'run' | 'logSizes'>,
    readonly run: string,
    hub: Pick<HubModel, 'labelled'>,
  ) {
    hub.labelled.connect(this.relabelled, this);
  }

  dispose(): void {
    Signal.clearData(this);
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  async read(): Promise<void> {
    try {
      const { cell, record, hasTimeline } = await this.server.run(this.run);
      Object.assign(this, { cell, record, hasTimeline });
      this.problem = '';
    } catch (error) {
      this.problem = sentence(error);
    }
    this._changed.emit();
  }

  async readLogSize(): Promise<void> {
    try {
      this.logBytes = (await this.server.logSizes(this.run)).reduce((sum, { bytes }) => sum + bytes, 0);
    } catch {
      // The logs' own page says what is wrong with them.
      this.logBytes = null;
    }
    this._changed.emit();
  }

  private relabelled(_: unknown, run: string): void {
    if (run === this.run) {
      void this.read();
    }
  }
}
