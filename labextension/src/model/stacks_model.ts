// Where a cluster's ranks are, as they said last. No DOM.
import type { HubModel } from './hub';
import { ProfileModel } from './profile_model';
import { sentence, type Server } from './server';
import { groupStacks, type Place, stacksOf } from './stacks';
import { type ISignal, Signal } from '@lumino/signaling';

/** The kernel is not there yet; the ranks are being asked; they have said where they are; they have not. */
export type StacksStatus = 'waiting' | 'asking' | 'read' | 'failed';

export class StacksModel {
  status: StacksStatus = 'waiting';
  places: readonly Place[] = [];
  /** What went wrong, as a sentence; empty where nothing did. */
  problem = '';
  /** The cluster's name. */
  name = '';
  readonly profile: ProfileModel;
  private generation = 0;
  private readonly _changed = new Signal<this, void>(this);

  constructor(
    private readonly server: Pick<Server, 'control'>,
    private readonly hub: Pick<HubModel, 'kernels' | 'changed'>,
    readonly kernel: string,
  ) {
    this.profile = new ProfileModel(server, kernel);
    hub.changed.connect(this.lookWhenThere, this);
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  dispose(): void {
    this.hub.changed.disconnect(this.lookWhenThere, this);
  }

  /** Ask the ranks where they are now. */
  async look(): Promise<void> {
    const state = this.hub.kernels.get(this.kernel);
    if (state === undefined) {
      this._changed.emit();
      return;
    }
    const generation = ++this.generation;
    this.name = state.cluster?.name ?? '';
    this.status = 'asking';
    this._changed.emit();
    try {
      const places = groupStacks(stacksOf(await this.server.control(this.kernel, 'stacks')));
      if (generation === this.generation) {
        this.places = places;
        this.status = 'read';
      }
    } catch (error) {
      if (generation === this.generation) {
        this.problem = sentence(error);
        this.status = 'failed';
      }
    }
    if (generation === this.generation) {
      this._changed.emit();
    }
  }

  /** A page that came back when JupyterLab was loaded again waits for its kernel. */
  private lookWhenThere(): void {
    if (this.status === 'waiting' && this.hub.kernels.has(this.kernel)) {
      void this.look();
    }
  }
}
