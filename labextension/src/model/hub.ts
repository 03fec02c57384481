// The kernels with ranks, as they report to the hub. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import type { KernelState, ToBrowser } from './hub_messages';
import type { Notice } from './notice';

export class HubModel {
  /** By kernel id, in the order in which they first reported. */
  readonly kernels = new Map<string, KernelState>();
  /** By kernel, the text of the fault that was last reported as that of a run, and the run. */
  private readonly ofRuns = new Map<string, { readonly text: string; readonly run: string }>();
  private connected = false;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _noticed = new Signal<this, Notice>(this);
  private readonly _labelled = new Signal<this, string>(this);
  private readonly _gone = new Signal<this, KernelState>(this);
  private readonly _faulted = new Signal<this, KernelState>(this);

  /** A kernel, its ranks or the connection changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** A run began or ended. */
  get noticed(): ISignal<this, Notice> {
    return this._noticed;
  }

  /** The name, the note or the tags of a run were changed; its id. */
  get labelled(): ISignal<this, string> {
    return this._labelled;
  }

  /** A kernel ended, or has let go of the hub; as it was. */
  get gone(): ISignal<this, KernelState> {
    return this._gone;
  }

  /** A kernel reports a new fault that is not one of a run that has ended: of that there is a notice. */
  get faulted(): ISignal<this, KernelState> {
    return this._faulted;
  }

  get isConnected(): boolean {
    return this.connected;
  }

  /** The connection was made, or lost: the kernels then report again. */
  connect(isConnected: boolean): void {
    this.connected = isConnected;
    this.kernels.clear();
    this._changed.emit();
  }

  handle(message: ToBrowser | Notice): void {
    switch (message.type) {
      case 'kernel_state': {
        const before = this.kernels.get(message.kernel);
        this.kernels.set(message.kernel, message);
        const text = message.fault?.text;
        const isNew = text !== undefined && before !== undefined && before.fault?.text !== text;
        if (isNew && this.ofRuns.get(message.kernel)?.text !== text) {
          this._faulted.emit(message);
        }
        this._changed.emit();
        break;
      }
      case 'kernel_gone': {
        const before = this.kernels.get(message.kernel);
        this.kernels.delete(message.kernel);
        this.ofRuns.delete(message.kernel);
        if (before !== undefined) {
          this._gone.emit(before);
        }
        this._changed.emit();
        break;
      }
      case 'run_notice':
        if (message.fault !== null) {
          this.ofRuns.set(message.kernel, { text: message.fault.text, run: message.run });
        } else if (message.state === 'running') {
          this.ofRuns.delete(message.kernel);
        }
        this._noticed.emit(message);
        break;
      case 'run_labelled':
        this._labelled.emit(message.run);
        break;
      case 'answer':
        break;
    }
  }

  /** Whether a kernel's cells without a magic run on its ranks; null for one that does not report. */
  runsWhole(kernel: string | undefined): boolean | null {
    return (kernel === undefined ? null : this.kernels.get(kernel)?.whole_notebook) ?? null;
  }

  /** Return the run that a kernel's fault is of; null where there is none, or that is not known. */
  runAtFault({ kernel, run, fault }: KernelState): string | null {
    const found = this.ofRuns.get(kernel);
    return fault === null ? null : (run ?? (found?.text === fault.text ? found.run : null));
  }

  /** Those that have ranks, or whose ranks start or were lost. */
  withRanks(): KernelState[] {
    return [...this.kernels.values()].filter(({ cluster }) => cluster !== null && cluster.state !== 'stopped');
  }
}
