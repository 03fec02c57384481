// What ranks may have: the devices of the server's host with their free memory, its cores and memory, and other places. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import type { Place } from './place';
import { sentence, type Server } from './server';
import type { Device, HostRoom } from './start';

export class RoomModel {
  devices: readonly Device[] = [];
  /** Null where it is not known. */
  host: HostRoom | null = null;
  places: readonly Place[] = [];
  /** Why places are not known; empty where they are. */
  problem = '';
  private generation = 0;
  private readonly _changed = new Signal<this, void>(this);

  constructor(private readonly server: Pick<Server, 'devices' | 'hostRoom' | 'places'>) {}

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  async read(): Promise<void> {
    const generation = ++this.generation;
    // The form works without any, and they are read again.
    const [devices, host, places] = await Promise.allSettled([this.server.devices(), this.server.hostRoom(), this.server.places()]);
    if (generation === this.generation) {
      this.devices = devices.status === 'fulfilled' ? devices.value : [];
      this.host = host.status === 'fulfilled' ? host.value : this.host;
      this.places = places.status === 'fulfilled' ? places.value : [];
      this.problem = places.status === 'fulfilled' ? '' : sentence(places.reason);
      this._changed.emit();
    }
  }
}
