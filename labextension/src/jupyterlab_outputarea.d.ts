// What is used of JupyterLab's areas of outputs; see jupyterlab_console.d.ts. Source: jupyterlab 4, packages/outputarea/src
declare module '@jupyterlab/outputarea' {
  import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
  import type { JSONObject } from '@lumino/coreutils';
  import { Widget } from '@lumino/widgets';

  export class OutputAreaModel {
    constructor(options: { readonly trusted: boolean });
    readonly length: number;
    /** Add an output, to the last one where both are text of one stream; return how many there are. */
    add(output: JSONObject): number;
    set(index: number, output: JSONObject): void;
    clear(wait?: boolean): void;
    dispose(): void;
  }

  export class SimplifiedOutputArea extends Widget {
    constructor(options: { readonly model: OutputAreaModel; readonly rendermime: IRenderMimeRegistry });
  }
}
