// Which cells of a notebook run on ranks: those that say so, or all without a magic (`%ddl auto on`).
import type { Kernel } from '@jupyterlab/services';
import { type ISignal, Signal } from '@lumino/signaling';
import type { HubModel } from '../model/hub';
import { plain } from '../model/lines';
import { isRecord } from '../model/parse';
import { startCell } from '../model/start';
import type { NotebookPanel } from './panels';

/** Where the notebook keeps it, for this panel and for `jupyter ddl export`. As jupyter_ddl/export/notebook.py reads it. */
const METADATA = 'jupyter_ddl';

/** Whether a notebook says that it runs on ranks as a whole. */
function isSavedWhole(panel: NotebookPanel): boolean {
  const found = panel.content.model?.getMetadata(METADATA);
  return isRecord(found) && found['auto'] === true;
}

/** The mode of one notebook: what its metadata says it begins with, and what its kernel reports since. */
export class NotebookMode {
  /** What was sent to the kernel, which has not reported it yet, or could not do it. */
  private sent: boolean | null = null;
  private isRestarting = false;
  private hasDied = false;
  private readonly _changed = new Signal<this, void>(this);

  /** @param fail gets the reason why a kernel did not take the mode. */
  constructor(
    private readonly panel: NotebookPanel,
    private readonly hub: HubModel,
    private readonly fail: (text: string) => void,
  ) {
    const { sessionContext, context } = panel;
    hub.changed.connect(this.look, this);
    sessionContext.kernelChanged.connect((_, { oldValue, newValue }) => {
      // A kernel that was restarted has it already.
      if (newValue !== oldValue) {
        this.begin();
      }
    });
    sessionContext.statusChanged.connect((_, status) => this.follow(status));
    panel.disposed.connect(() => {
      hub.changed.disconnect(this.look, this);
    });
    void context.ready.then(() => {
      panel.content.model?.metadataChanged.connect(this.notify, this);
      this.begin();
    });
  }

  /** The mode is another one, or is saved as another one. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Whether cells without a magic run on the ranks. */
  get isWhole(): boolean {
    return this.sent ?? this.hub.runsWhole(this.kernel?.id) ?? isSavedWhole(this.panel);
  }

  /** Have the notebook run on ranks as a whole, or not, now and whenever it is opened. */
  choose(isWhole: boolean): void {
    const { model } = this.panel.content;
    const found = model?.getMetadata(METADATA);
    const { auto: _, ...others } = isRecord(found) ? found : {};
    if (isWhole) {
      model?.setMetadata(METADATA, { ...(others as Record<string, string>), auto: true });
    } else if (Object.keys(others).length > 0) {
      model?.setMetadata(METADATA, others as Record<string, string>);
    } else {
      model?.deleteMetadata(METADATA);
    }
    this.order(isWhole);
    this.notify();
  }

  private get kernel(): Kernel.IKernelConnection | null {
    return this.panel.sessionContext.session?.kernel ?? null;
  }

  /** Have a kernel know what is saved. */
  private begin(): void {
    this.sent = null;
    if (this.panel.context.isReady && isSavedWhole(this.panel)) {
      this.order(true);
    }
    this.notify();
  }

  private follow(status: Kernel.Status): void {
    const isAgain = status === 'restarting' && this.isRestarting;
    this.isRestarting = status === 'restarting';
    if (this.isRestarting && !isAgain) {
      // What is sent now waits for the new kernel, before all cells; the old one's messages are dropped until then.
      // Source: @jupyterlab/services 7.6, kernel/default.js, restart and _sendMessage
      void Promise.resolve().then(() => this.begin());
    } else if (status === 'autorestarting') {
      this.hasDied = true;
    } else if (status === 'idle' && this.hasDied) {
      this.hasDied = false;
      this.begin();
    }
  }

  private order(isWhole: boolean): void {
    const { kernel } = this;
    if (kernel !== null) {
      this.sent = isWhole;
      this.send(kernel, isWhole).catch((reason: unknown) => console.debug('jupyter_ddl:', reason));
    }
  }

  private async send(kernel: Kernel.IKernelConnection, isWhole: boolean): Promise<void> {
    const code = startCell(`%ddl auto ${isWhole ? 'on' : 'off'}`);
    // Silent: it is no execution of the user's.
    const { content } = await kernel.requestExecute({ code, silent: true, store_history: false, allow_stdin: false }).done;
    if (content.status === 'error') {
      this.sent = false;
      this.notify();
      this.fail(plain(`${content.ename}: ${content.evalue}`));
    } else if (content.status !== 'ok' && this.sent === isWhole) {
      // A cell before it failed, and the kernel has dropped all that waited.
      await this.send(kernel, isWhole);
    }
  }

  /** The kernel has reported: from here on what it says holds, also what a cell turns on or off. */
  private look(): void {
    if (this.sent !== null && this.hub.runsWhole(this.kernel?.id) === this.sent) {
      this.sent = null;
    }
    this.notify();
  }

  private notify(): void {
    this._changed.emit();
  }
}

/** Those of all notebooks that are open. */
export class NotebookModes {
  private readonly modes = new Map<NotebookPanel, NotebookMode>();

  constructor(
    private readonly hub: HubModel,
    private readonly fail: (text: string) => void,
  ) {}

  of(panel: NotebookPanel): NotebookMode {
    let mode = this.modes.get(panel);
    if (mode === undefined) {
      mode = new NotebookMode(panel, this.hub, this.fail);
      this.modes.set(panel, mode);
      panel.disposed.connect(() => this.modes.delete(panel));
    }
    return mode;
  }
}
