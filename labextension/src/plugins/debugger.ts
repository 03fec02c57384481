// JupyterLab's debugger on one rank of a notebook's ranks: commands, whose code is loaded when one is used.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IDebugger, IDebuggerHandler } from '@jupyterlab/debugger';
import type { Debuggers } from '../notebook/debuggers';
import type { NotebookPanel } from '../notebook/panels';
import { CommandIDs, type Distributed, IDistributed, PluginIDs } from '../tokens';
import { rankOf, targetOf } from './chosen_rank';
import type { Given } from './given';
import { inPalette } from './palette';

export const rankDebugger: JupyterFrontEndPlugin<void> = {
  id: PluginIDs.rankDebugger,
  description: "JupyterLab's debugger on one rank.",
  autoStart: true,
  requires: [IDistributed],
  optional: [IDebugger, IDebuggerHandler, ICommandPalette],
  activate: (
    { commands, shell }: JupyterFrontEnd,
    distributed: Distributed,
    service: IDebugger | null,
    handler: IDebugger.IHandler | null,
    palette: ICommandPalette | null,
  ): void => {
    if (service === null || handler === null) {
      return;
    }
    const { trans, hub, notebook } = distributed;
    let loaded: Promise<Debuggers> | null = null;
    const load = async (): Promise<Debuggers> => new (await import('../notebook/debuggers')).Debuggers(distributed, service, handler);
    const isEnabled = (given: Given): boolean => targetOf(shell, distributed, given) !== null;
    /** Debug a rank, then do something. */
    const begin = async (given: Given, then: (debuggers: Debuggers, panel: NotebookPanel) => Promise<void>): Promise<void> => {
      const panel = targetOf(shell, distributed, given);
      const rank = panel === null ? null : await rankOf(distributed, panel, given);
      const debuggers = await (loaded ??= load());
      if (panel !== null && rank !== null && (await debuggers.begin(panel, rank))) {
        shell.activateById(panel.id);
        if (commands.hasCommand('debugger:show-panel')) {
          await commands.execute('debugger:show-panel');
        }
        await then(debuggers, panel);
      }
    };
    commands.addCommand(CommandIDs.debugRank, {
      label: trans.__('Debug on a Rank…'),
      isEnabled,
      execute: (given: Given) => begin(given, async () => undefined),
    });
    commands.addCommand(CommandIDs.debugCell, {
      label: trans.__('Debug This Cell on a Rank…'),
      isEnabled,
      execute: (given: Given) =>
        begin(given, async (debuggers, panel) => {
          if (await debuggers.holdFirstLine(panel)) {
            void commands.execute('notebook:run-cell');
          }
        }),
    });
    const all = [CommandIDs.debugRank, CommandIDs.debugCell];
    const changed = (): void => all.forEach((id) => commands.notifyCommandChanged(id));
    hub.changed.connect(changed);
    notebook.changed.connect(changed);
    inPalette(palette, trans, all);
  },
};
