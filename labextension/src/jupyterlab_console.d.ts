// What is used of JupyterLab's consoles. @jupyterlab/console itself would double what a build installs, as @jupyterlab/notebook
// would (`notebook/panels.ts`). Source: jupyterlab 4, packages/console/src/widget.ts
declare module '@jupyterlab/console' {
  import type { ISessionContext } from '@jupyterlab/apputils';
  import type { CodeEditor, IEditorMimeTypeService } from '@jupyterlab/codeeditor';
  import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
  import type { ITranslator } from '@jupyterlab/translation';
  import type { ISignal } from '@lumino/signaling';
  import { Widget } from '@lumino/widgets';

  export class CodeConsole extends Widget {
    constructor(options: CodeConsole.IOptions);
    readonly promptCell: { readonly editor: CodeEditor.IEditor | null } | null;
    readonly promptCellCreated: ISignal<this, unknown>;
    execute(force?: boolean): Promise<void>;
    /** Run code as a cell of its own, and leave the prompt as it is. */
    inject(code: string): Promise<void>;
  }

  export namespace CodeConsole {
    interface IOptions {
      readonly contentFactory: ContentFactory;
      readonly rendermime: IRenderMimeRegistry;
      readonly sessionContext: ISessionContext;
      readonly mimeTypeService: IEditorMimeTypeService;
      readonly translator?: ITranslator;
    }

    class ContentFactory {
      constructor(options: { readonly editorFactory: CodeEditor.Factory });
    }
  }
}
