// Names that more than one module uses.

export const PLUGIN = 'jupyter-ddl:panel';
export const PANEL = 'jupyter-ddl-panel';
export const NAMESPACE = 'jupyter-ddl';

export namespace CommandIDs {
  export const showPanel = 'jupyter-ddl:show-panel';
  export const start = 'jupyter-ddl:start';
  export const interrupt = 'jupyter-ddl:interrupt';
  export const stop = 'jupyter-ddl:stop';
  export const restart = 'jupyter-ddl:restart';
  export const stacks = 'jupyter-ddl:stacks';
  /** Of the kernel that is named, and no other. */
  export const stacksOf = 'jupyter-ddl:stacks-of';
  export const openRun = 'jupyter-ddl:open-run';
  export const openLog = 'jupyter-ddl:open-log';
  export const compare = 'jupyter-ddl:compare-runs';
  export const toggleDistributed = 'jupyter-ddl:toggle-distributed';
  export const tooltip = 'jupyter-ddl:tooltip';
}
