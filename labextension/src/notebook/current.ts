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
    const tell = (): void => this._changed.emit();
    this.current?.sessionContext.kernelChanged.disconnect(this.tell, this);
    this.current?.content.activeCellChanged.disconnect(this.tell, this);
    this.current = panel;
    panel.sessionContext.kernelChanged.connect(this.tell, this);
    panel.content.activeCellChanged.connect(this.tell, this);
    panel.disposed.connect(() => {
      if (this.current === panel) {
        this.current = null;
        tell();
      }
    });
    tell();
  }

  private tell(): void {
    this._changed.emit();
  }
}
