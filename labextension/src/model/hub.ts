// The kernels with ranks, as the hub tells of them. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import type { HubMessage, KernelState, RunNotice } from './hub_messages';

// Of marks on cells nobody needs more; the runs themselves are listed from disk.
const MAX_NOTICES = 2000;

export class HubModel {
  /** By kernel id, in the order in which they were first told of. */
  readonly kernels = new Map<string, KernelState>();
  /** The newest notice of each cell. */
  readonly cells = new Map<string, RunNotice>();
  private connected = false;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _noticed = new Signal<this, RunNotice>(this);
  private readonly _remembered = new Signal<this, void>(this);
  private readonly _faulted = new Signal<this, KernelState>(this);

  /** A kernel, its ranks or the connection changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** A run began or ended. */
  get noticed(): ISignal<this, RunNotice> {
    return this._noticed;
  }

  /** Marks of cells came back. */
  get remembered(): ISignal<this, void> {
    return this._remembered;
  }

  /** A kernel told of a fault that it did not tell of before. */
  get faulted(): ISignal<this, KernelState> {
    return this._faulted;
  }

  get isConnected(): boolean {
    return this.connected;
  }

  /** The connection came up, or is lost: which kernels there are is then told anew. */
  connect(isConnected: boolean): void {
    this.connected = isConnected;
    this.kernels.clear();
    this._changed.emit();
  }

  handle(message: HubMessage): void {
    switch (message.type) {
      case 'kernel_state': {
        const before = this.kernels.get(message.kernel);
        this.kernels.set(message.kernel, message);
        if (message.fault !== null && before !== undefined && before.fault !== message.fault) {
          this._faulted.emit(message);
        }
        this._changed.emit();
        break;
      }
      case 'kernel_gone':
        this.kernels.delete(message.kernel);
        this._changed.emit();
        break;
      case 'run_notice':
        this.keep(message);
        this._noticed.emit(message);
        break;
      case 'answer':
        break;
    }
  }

  /** Those that have ranks, or whose ranks start or were lost. */
  withRanks(): KernelState[] {
    return [...this.kernels.values()].filter(({ cluster }) => cluster !== null && cluster.state !== 'stopped');
  }

  /** Take what was told before the page was loaded again, unless the cell has run since. */
  remember(notice: RunNotice): void {
    if (notice.cell_id !== null && !this.cells.has(notice.cell_id)) {
      this.keep(notice);
      this._remembered.emit();
    }
  }

  private keep(notice: RunNotice): void {
    if (notice.cell_id === null) {
      return;
    }
    // The oldest go first, and a cell that runs again is new.
    this.cells.delete(notice.cell_id);
    this.cells.set(notice.cell_id, notice);
    const oldest = this.cells.keys().next();
    if (this.cells.size > MAX_NOTICES && oldest.done !== true) {
      this.cells.delete(oldest.value);
    }
  }
}
