// What the page of a run shows beside its events: its cell, and how much its ranks wrote. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import { sentence, type Server } from './server';

export class RunDetailsModel {
  cell = '';
  /** What went wrong, as a sentence; empty where nothing did. */
  problem = '';
  /** Of all ranks; null where that is not known. */
  logBytes: number | null = null;
  private readonly _changed = new Signal<this, void>(this);

  constructor(
    private readonly server: Pick<Server, 'run' | 'logSizes'>,
    readonly run: string,
  ) {}

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  async read(): Promise<void> {
    try {
      this.cell = (await this.server.run(this.run)).cell;
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
}
