// The notebook that commands mean: the one that was in front last.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { Kernel } from '@jupyterlab/services';
import { type ISignal, Signal } from '@lumino/signaling';
import type { Widget } from '@lumino/widgets';
import { asNotebook, type NotebookPanel } from './panels';

export class CurrentNotebook {
  private current: NotebookPanel | null = null;
  private readonly _changed = new Signal<this, void>(this);

  constructor(shell: JupyterFrontEnd.IShell) {
    const look = (widget: Widget | null): void => this.look(widget);
    look(shell.currentWidget);
    shell.currentChanged?.connect((_, { newValue }) => look(newValue));
  }

  /** Another notebook, its kernel or its active cell is in front. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get panel(): NotebookPanel | null {
    return this.current;
  }

  get kernel(): Kernel.IKernelConnection | null {
    return this.current?.sessionContext.session?.kernel ?? null;
  }

  private look(widget: Widget | null): void {
    const panel = asNotebook(widget);
    if (panel === null || panel === this.current) {
      return;
    }
    this.current?.sessionContext.kernelChanged.disconnect(this.notify, this);
    this.current?.content.activeCellChanged.disconnect(this.notify, this);
    this.current = panel;
    panel.sessionContext.kernelChanged.connect(this.notify, this);
    panel.content.activeCellChanged.connect(this.notify, this);
    panel.disposed.connect(() => {
      if (this.current === panel) {
        this.current = null;
        this.notify();
      }
    });
    this.notify();
  }

  private notify(): void {
    this._changed.emit();
  }
}
