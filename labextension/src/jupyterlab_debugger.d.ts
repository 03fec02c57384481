// What is used of JupyterLab's debugger; see jupyterlab_console.d.ts. Source: jupyterlab 4.6, packages/debugger/src/tokens.ts
declare module '@jupyterlab/debugger' {
  import type { Session } from '@jupyterlab/services';
  import type { Token } from '@lumino/coreutils';
  import type { Widget } from '@lumino/widgets';

  export interface IBreakpoint {
    readonly line?: number;
    readonly verified: boolean;
    readonly source?: { readonly path?: string; readonly name?: string };
  }

  export interface IDebugger {
    readonly isStarted: boolean;
    readonly session: { readonly connection: Session.ISessionConnection | null } | null;
    readonly model: { title: string; readonly breakpoints: { getBreakpoints(id: string): readonly IBreakpoint[] } };
    getCodeId(code: string): string;
    restoreState(autoStart: boolean): Promise<void>;
    stop(): Promise<void>;
    updateBreakpoints(code: string, breakpoints: readonly IBreakpoint[], path?: string): Promise<void>;
  }

  export namespace IDebugger {
    /** Of notebooks: it has the button in their toolbars. */
    interface IHandler {
      updateWidget(widget: Widget, connection: Session.ISessionConnection | null): Promise<void>;
    }
  }

  export const IDebugger: Token<IDebugger>;
  export const IDebuggerHandler: Token<IDebugger.IHandler>;
}
