// What is used of JupyterLab's notebooks. @jupyterlab/notebook itself would double what a build installs.
import type { ISessionContext } from '@jupyterlab/apputils';
import type { ITooltipManager } from '@jupyterlab/tooltip';
import type { ISignal } from '@lumino/signaling';
import type { Widget } from '@lumino/widgets';

export interface NotebookCell extends Widget {
  readonly model: {
    readonly id: string;
    readonly type: string;
    readonly sharedModel: {
      getSource(): string;
      setSource(source: string): void;
      readonly changed: ISignal<unknown, unknown>;
    };
  };
  readonly editor: ITooltipManager.IOptions['editor'] | null;
}

export interface Notebook extends Widget {
  readonly activeCell: NotebookCell | null;
  readonly widgets: readonly NotebookCell[];
  readonly activeCellChanged: ISignal<unknown, unknown>;
  readonly rendermime: ITooltipManager.IOptions['rendermime'];
  readonly modelContentChanged: ISignal<unknown, unknown>;
}

export interface NotebookPanel extends Widget {
  readonly content: Notebook;
  readonly sessionContext: ISessionContext;
  readonly context: { readonly path: string; readonly ready: Promise<void> };
}

/** Return the widget where it is a notebook. */
export function asNotebook(widget: Widget | null): NotebookPanel | null {
  return widget !== null && widget.hasClass('jp-NotebookPanel') ? (widget as unknown as NotebookPanel) : null;
}
