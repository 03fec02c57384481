// The file for support of a run, as it would be: what is in it, with the cell's code or without. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import { type RunReport, sentence, type Server } from './server';

export class ReportModel {
  /** Null while it is being made. */
  report: RunReport | null = null;
  /** What went wrong, as a sentence; empty where nothing did. */
  problem = '';
  /** The number of the newest read: what an earlier one brings is of another choice. */
  private generation = 0;
  private readonly _changed = new Signal<this, void>(this);

  constructor(
    private readonly server: Pick<Server, 'report'>,
    private readonly run: string,
  ) {}

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Have it made again, with the code or without. */
  async read(withCode: boolean): Promise<void> {
    const generation = ++this.generation;
    this.report = null;
    this.problem = '';
    this._changed.emit();
    let [report, problem]: [RunReport | null, string] = [null, ''];
    try {
      report = await this.server.report(this.run, withCode);
    } catch (error) {
      problem = sentence(error);
    }
    if (generation === this.generation) {
      this.report = report;
      this.problem = problem;
      this._changed.emit();
    }
  }
}
