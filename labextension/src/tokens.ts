// Names that more than one module uses, and what the plugin of the hub gives to the others.
import { Token } from '@lumino/coreutils';
import type { CellMarks } from './model/cell_marks';
import type { Server } from './model/server';
import type { CurrentNotebook } from './notebook/current';
import type { Context } from './panels/context';

/** Ranks and runs as this page knows them, and the server that it has them from. */
export interface Distributed extends Context {
  readonly server: Server;
  readonly marks: CellMarks;
  readonly notebook: CurrentNotebook;
}

export const IDistributed = new Token<Distributed>(
  'jupyter-ddl:IDistributed',
  'The ranks and runs of jupyter_ddl: models of the hub, the one connection to it, and the notebook in front.',
);

/** Each can be disabled on its own: jupyter labextension disable ID. Without the hub there is none of the others. */
export namespace PluginIDs {
  export const hub = 'jupyter-ddl:hub';
  /** The sidebar. It has the settings, also those of notifications. */
  export const panel = 'jupyter-ddl:panel';
  export const controls = 'jupyter-ddl:controls';
  export const pages = 'jupyter-ddl:pages';
  export const example = 'jupyter-ddl:example';
  export const labels = 'jupyter-ddl:labels';
  export const cells = 'jupyter-ddl:cells';
  export const outputs = 'jupyter-ddl:outputs';
  export const consoles = 'jupyter-ddl:consoles';
  export const rankDebugger = 'jupyter-ddl:debugger';
  export const completion = 'jupyter-ddl:completion';
  export const tensorboard = 'jupyter-ddl:tensorboard';
  export const status = 'jupyter-ddl:status';
  export const notifications = 'jupyter-ddl:notifications';
}

export const PANEL = 'jupyter-ddl-panel';
export const NAMESPACE = 'jupyter-ddl';

export namespace CommandIDs {
  export const showPanel = 'jupyter-ddl:show-panel';
  export const start = 'jupyter-ddl:start';
  export const interrupt = 'jupyter-ddl:interrupt';
  export const stop = 'jupyter-ddl:stop';
  export const restart = 'jupyter-ddl:restart';
  /** Restarts the count until idle ranks are ended. */
  export const keep = 'jupyter-ddl:keep';
  export const stacks = 'jupyter-ddl:stacks';
  /** Of the kernel that is named, and no other. */
  export const stacksOf = 'jupyter-ddl:stacks-of';
  export const clusters = 'jupyter-ddl:all-clusters';
  export const openExample = 'jupyter-ddl:open-example';
  export const openRun = 'jupyter-ddl:open-run';
  export const openLog = 'jupyter-ddl:open-log';
  /** These return what went wrong, as a sentence; empty where nothing did. */
  export const goToCell = 'jupyter-ddl:go-to-cell';
  export const renameRun = 'jupyter-ddl:rename-run';
  export const noteRun = 'jupyter-ddl:note-run';
  export const tagRun = 'jupyter-ddl:tag-run';
  export const reportRun = 'jupyter-ddl:report-run';
  /** Of the run or the folder that is named; else of a folder that the user is asked for. */
  export const tensorboard = 'jupyter-ddl:open-tensorboard';
  export const compare = 'jupyter-ddl:compare-runs';
  export const toggleDistributed = 'jupyter-ddl:toggle-distributed';
  export const toggleWhole = 'jupyter-ddl:toggle-whole-notebook';
  export const desktopNotifications = 'jupyter-ddl:toggle-desktop-notifications';
  export const tooltip = 'jupyter-ddl:tooltip';
  /** Of the kernel and the rank that are named; else of the notebook in front, and the user chooses the rank. */
  export const openConsole = 'jupyter-ddl:open-console';
  export const runOnRank = 'jupyter-ddl:run-on-rank';
  export const debugRank = 'jupyter-ddl:debug-rank';
  export const debugCell = 'jupyter-ddl:debug-cell';
  /** In the console that has the focus. */
  export const consoleRun = 'jupyter-ddl:console-run';
  export const consoleComplete = 'jupyter-ddl:console-complete';
  export const consoleSelect = 'jupyter-ddl:console-select';
  export const consoleInspect = 'jupyter-ddl:console-inspect';
  export const consoleInterrupt = 'jupyter-ddl:console-interrupt';
}
