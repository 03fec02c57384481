// The batch jobs that no notebook uses: the server asks the scheduler for them. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import type { HubModel } from './hub';
import { type BatchJob, jobsWithoutKernel } from './jobs';
import type { KeptModel } from './kept_model';
import { sentence, type Server } from './server';

/** The scheduler of a busy site is asked no more often. */
export const ASK_EVERY_MS = 15_000;

export class JobsModel {
  private jobs: readonly BatchJob[] = [];
  private _problem = '';
  private isAsking = false;
  private askedMs = -Infinity;
  private readonly _changed = new Signal<this, void>(this);

  constructor(
    private readonly server: Pick<Server, 'jobs' | 'endJob'>,
    private readonly hub: Pick<HubModel, 'isConnected' | 'withRanks'>,
    private readonly kept: Pick<KeptModel, 'names'>,
  ) {}

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Those that no kernel uses; none while the server does not answer. */
  get shown(): readonly BatchJob[] {
    return this.hub.isConnected ? jobsWithoutKernel(this.jobs, this.hub.withRanks(), this.kept.names) : [];
  }

  /** Why they cannot be read, in the scheduler's words; empty where they can. */
  get problem(): string {
    return this.hub.isConnected ? this._problem : '';
  }

  /** Read which there are, unless that was done just now, or is being done.
   *
   * @param nowMs by a clock that never decreases
   */
  async read(nowMs: number = performance.now()): Promise<void> {
    if (this.hub.isConnected && !this.isAsking && nowMs - this.askedMs >= ASK_EVERY_MS) {
      this.askedMs = nowMs;
      await this.ask();
    }
  }

  /** End a job, or take it from its queue.
   *
   * @throws Error with the server's sentence when that failed.
   */
  async end(job: string): Promise<void> {
    await this.server.endJob(job);
    // Until the scheduler is asked again.
    this.jobs = this.jobs.filter((one) => one.job !== job);
    this._changed.emit();
  }

  private async ask(): Promise<void> {
    this.isAsking = true;
    try {
      this.jobs = await this.server.jobs();
      this._problem = '';
    } catch (error) {
      this.jobs = [];
      this._problem = sentence(error);
    } finally {
      this.isAsking = false;
    }
    this._changed.emit();
  }
}
