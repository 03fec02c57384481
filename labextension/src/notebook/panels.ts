// What is used of JupyterLab's notebooks. @jupyterlab/notebook itself would double what a build installs.
import type { ISessionContext } from '@jupyterlab/apputils';
import type { ITooltipManager } from '@jupyterlab/tooltip';
import type { JSONObject, JSONValue } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';
import type { Widget } from '@lumino/widgets';

/** What renders a notebook's outputs, and what it renders. */
export interface Rendering {
  readonly registry: ITooltipManager.IOptions['rendermime'];
  readonly model: ReturnType<Rendering['registry']['createModel']>;
  readonly renderer: ReturnType<Rendering['registry']['createRenderer']>;
}

/** An output, as far as it is a bundle: others have neither. */
export interface Output {
  readonly data: Readonly<Record<string, unknown>>;
  readonly metadata: Readonly<Record<string, unknown>>;
}

/** A cell's outputs; its widgets are theirs, in order. */
export interface OutputArea extends Widget {
  readonly model: {
    readonly length: number;
    get(at: number): Output;
  };
  readonly widgets: readonly Widget[];
  /** Emitted after each change, also of one output. Source: jupyterlab 4, packages/outputarea/src/widget.ts, onModelChanged */
  readonly outputLengthChanged: ISignal<unknown, unknown>;
}

export interface NotebookCell extends Widget {
  readonly model: {
    readonly id: string;
    readonly type: string;
    readonly sharedModel: {
      getSource(): string;
      updateSource(start: number, end: number, text: string): void;
      readonly changed: ISignal<unknown, unknown>;
    };
    /** Of a cell of code. */
    readonly outputs?: {
      readonly length: number;
      get(at: number): Output;
      set(at: number, output: JSONObject): void;
    };
  };
  /** Of a cell of code; its `future` is of the execution whose outputs this page gets, if it has begun one. */
  readonly outputArea?: { readonly future?: unknown };
  readonly editor: ITooltipManager.IOptions['editor'] | null;
}

export interface NotebookContent {
  readonly sharedModel: { insertCell(index: number, cell: JSONObject): unknown };
  getMetadata(key: string): unknown;
  setMetadata(key: string, value: JSONValue): void;
  deleteMetadata(key: string): void;
  readonly metadataChanged: ISignal<unknown, unknown>;
}

export interface Notebook extends Widget {
  readonly model: NotebookContent | null;
  readonly activeCell: NotebookCell | null;
  activeCellIndex: number;
  deselectAll(): void;
  scrollToItem(index: number, align?: 'center'): Promise<void>;
  readonly widgets: readonly NotebookCell[];
  readonly activeCellChanged: ISignal<unknown, unknown>;
  readonly rendermime: ITooltipManager.IOptions['rendermime'];
  readonly modelContentChanged: ISignal<unknown, unknown>;
}

export interface NotebookPanel extends Widget {
  readonly content: Notebook;
  readonly sessionContext: ISessionContext;
  readonly revealed: Promise<void>;
  readonly context: {
    readonly path: string;
    readonly isReady: boolean;
    readonly ready: Promise<void>;
    save(): Promise<void>;
    readonly pathChanged: ISignal<unknown, string>;
  };
}

/** Return the outputs in which a widget is one's renderer; null where it is none. */
export function outputsOf(renderer: Widget): OutputArea | null {
  const area = renderer.parent?.parent ?? null;
  return area !== null && area.hasClass('jp-OutputArea') ? (area as unknown as OutputArea) : null;
}

/** Return the widget where it is a notebook. */
export function asNotebook(widget: Widget | null): NotebookPanel | null {
  return widget !== null && widget.hasClass('jp-NotebookPanel') ? (widget as unknown as NotebookPanel) : null;
}
