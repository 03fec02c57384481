// The clusters with no kernel: the server finds in their folders which there are. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import type { HubModel } from './hub';
import { type KeptCluster, withoutKernel } from './kept';
import type { Server } from './server';

export class KeptModel {
  /** Whether they are shown: then they are requested when the connection is made. */
  isWatched = false;
  private clusters: readonly KeptCluster[] = [];
  private generation = 0;
  private readonly _changed = new Signal<this, void>(this);

  constructor(
    private readonly server: Pick<Server, 'opened' | 'keptClusters' | 'stopCluster'>,
    private readonly hub: Pick<HubModel, 'isConnected' | 'withRanks'>,
  ) {
    server.opened.connect(() => void (this.isWatched && this.read()));
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Those that no kernel has attached to; none while the server does not answer. */
  get shown(): readonly KeptCluster[] {
    return this.hub.isConnected ? withoutKernel(this.clusters, this.hub.withRanks()) : [];
  }

  /** The names that they have. */
  get names(): string[] {
    return this.clusters.map(({ name }) => name);
  }

  /** Read from the server which there are. */
  async read(): Promise<void> {
    const generation = ++this.generation;
    let found: readonly KeptCluster[] = [];
    try {
      found = this.hub.isConnected ? await this.server.keptClusters() : [];
    } catch {
      // They are read again, and the connection reports its own state.
    }
    if (generation === this.generation) {
      this.clusters = found;
      this._changed.emit();
    }
  }

  /** End a cluster's ranks.
   *
   * @throws Error with the server's sentence when that failed.
   */
  async stop(name: string): Promise<void> {
    try {
      await this.server.stopCluster(name);
    } finally {
      await this.read();
    }
  }
}
