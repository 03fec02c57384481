// What the server's host has for ranks: its devices with their free memory, its cores and its memory. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import type { Server } from './server';
import type { Device, HostRoom } from './start';

export class RoomModel {
  devices: readonly Device[] = [];
  /** Null where it is not known. */
  host: HostRoom | null = null;
  private generation = 0;
  private readonly _changed = new Signal<this, void>(this);

  constructor(private readonly server: Pick<Server, 'devices' | 'hostRoom'>) {}

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  async read(): Promise<void> {
    const generation = ++this.generation;
    let [devices, host]: [readonly Device[], HostRoom | null] = [[], this.host];
    try {
      devices = await this.server.devices();
      host = await this.server.hostRoom();
    } catch {
      // The form works without them, and they are read again.
      devices = [];
    }
    if (generation === this.generation) {
      this.devices = devices;
      this.host = host;
      this._changed.emit();
    }
  }
}
