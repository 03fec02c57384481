// What a console on one rank has sent to its kernel, and what that waits for. The kernel runs one thing at a time: the
// notebook's cells and what is typed here, in the order in which they came. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import type { HubModel } from './hub';
import type { KernelState } from './hub_messages';

/**
 * `none`: there are no ranks, `gone`: not that one. `running`: code of the console runs; `waiting`: it waits for a cell of the
 * notebook; `busy`: such a cell runs on the ranks, and the console has sent nothing.
 */
export type ConsoleState = 'none' | 'gone' | 'idle' | 'busy' | 'waiting' | 'running';

/** Code that was sent. */
export interface SentCode {
  /** The kernel has begun it. */
  readonly began: () => void;
  /** It has ended, or will never begin. */
  readonly ended: () => void;
}

export class ConsoleModel {
  /** What was sent and has not ended; whether it has begun. */
  private readonly sent = new Map<SentCode, boolean>();
  private readonly _changed = new Signal<this, void>(this);

  /** @param kernel returns the notebook's kernel; null where it has none. */
  constructor(
    private readonly hub: HubModel,
    private readonly kernel: () => string | null,
    readonly rank: number,
  ) {
    hub.changed.connect(this.notify, this);
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  dispose(): void {
    this.hub.changed.disconnect(this.notify, this);
    Signal.clearData(this);
  }

  /** Note that code was sent. */
  send(): SentCode {
    const code: SentCode = {
      began: () => this.note(() => this.sent.has(code) && this.sent.set(code, true)),
      ended: () => this.note(() => this.sent.delete(code)),
    };
    this.note(() => this.sent.set(code, false));
    return code;
  }

  get state(): ConsoleState {
    const began = [...this.sent.values()];
    if (began.length > 0) {
      return began.includes(true) ? 'running' : 'waiting';
    }
    const { cluster } = this;
    if (cluster === null) {
      return 'none';
    }
    return this.rank >= cluster.world_size ? 'gone' : cluster.run === null ? 'idle' : 'busy';
  }

  /** The ranks that the kernel has now; null where it has none. */
  get cluster(): { readonly name: string; readonly world_size: number; readonly run: string | null } | null {
    const kernel = this.kernel();
    const found: KernelState | undefined = kernel === null ? undefined : this.hub.kernels.get(kernel);
    const cluster = found?.cluster ?? null;
    return found === undefined || cluster === null || cluster.state === 'stopped' ? null : { ...cluster, run: found.run };
  }

  private note(change: () => unknown): void {
    change();
    this.notify();
  }

  private notify(): void {
    this._changed.emit();
  }
}
