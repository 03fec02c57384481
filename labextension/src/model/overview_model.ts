// What the page of all clusters shows: whose, in which order, and which are to be stopped. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import { type ClusterSummary, type Column, idleFor, keyOf, type Order, ordered, type Overview, type StopOutcome } from './overview';
import { sentence, type Server } from './server';

const NOTHING: Overview = { clusters: [], problems: [], hasHub: false };
/** Ranks without a run for so long can be stopped; the third is proposed. */
export const IDLE_CHOICES_S: readonly number[] = [5 * 60, 15 * 60, 30 * 60, 3600, 4 * 3600, 24 * 3600];

export class OverviewModel {
  private _status: 'reading' | 'read' | 'failed' = 'reading';
  private _problem = '';
  private _order: Order = { by: 'idle', isDescending: true };
  private _idleS = IDLE_CHOICES_S[2]!;
  private _isOfHub = false;
  private _hasHub = false;
  private overview = NOTHING;
  private generation = 0;
  private readonly _changed = new Signal<this, void>(this);

  constructor(private readonly server: Pick<Server, 'overview' | 'hubOverview' | 'stopIdle' | 'stopIdleInHub'>) {}

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get status(): 'reading' | 'read' | 'failed' {
    return this._status;
  }

  /** Why they cannot be read, as a sentence. */
  get problem(): string {
    return this._problem;
  }

  get order(): Order {
    return this._order;
  }

  /** Whether there is a JupyterHub whose servers the user may look at. */
  get hasHub(): boolean {
    return this._hasHub;
  }

  /** Whether all servers of the JupyterHub are shown, in place of this one. */
  get isOfHub(): boolean {
    return this._isOfHub;
  }

  get idleS(): number {
    return this._idleS;
  }

  get clusters(): readonly ClusterSummary[] {
    return ordered(this.overview.clusters, this._order);
  }

  /** The servers of the JupyterHub whose clusters are not known. */
  get problems(): Overview['problems'] {
    return this.overview.problems;
  }

  /** Those that can be stopped as idle. */
  get idle(): readonly ClusterSummary[] {
    return idleFor(this.clusters, this._idleS);
  }

  /** Sort by a column; again to turn the order round. */
  sortBy(by: Column): void {
    this._order = { by, isDescending: this._order.by === by ? !this._order.isDescending : by === 'idle' || by === 'fault' };
    this._changed.emit();
  }

  chooseIdle(seconds: number): void {
    this._idleS = seconds;
    this._changed.emit();
  }

  /** Show those of this server, or of all servers of the JupyterHub. */
  async show(isOfHub: boolean): Promise<void> {
    this._isOfHub = isOfHub;
    this.overview = NOTHING;
    this._status = 'reading';
    this._changed.emit();
    await this.read();
  }

  async read(): Promise<void> {
    const generation = ++this.generation;
    try {
      const found = await (this._isOfHub ? this.server.hubOverview() : this.server.overview());
      if (generation === this.generation) {
        this.overview = found;
        this._hasHub ||= found.hasHub;
        this._status = 'read';
        this._problem = '';
      }
    } catch (error) {
      if (generation === this.generation) {
        this._status = 'failed';
        this._problem = sentence(error);
      }
    }
    if (generation === this.generation) {
      this._changed.emit();
    }
  }

  /** Stop clusters that are idle still; return what became of each, in their order.
   *
   * @throws Error with the server's sentence when nothing could be asked.
   */
  async stop(clusters: readonly ClusterSummary[]): Promise<readonly (readonly [ClusterSummary, StopOutcome])[]> {
    try {
      const outcomes = await (this._isOfHub
        ? this.server.stopIdleInHub(clusters, this._idleS)
        : this.server.stopIdle(clusters.map(({ id }) => id), this._idleS));
      return clusters.map((one) => [one, outcomes.get(this._isOfHub ? keyOf(one) : one.id) ?? 'failed']);
    } finally {
      await this.read();
    }
  }
}
