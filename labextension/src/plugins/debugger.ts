// JupyterLab's debugger on one rank of a notebook's ranks.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, ICommandPalette, showDialog } from '@jupyterlab/apputils';
import { IDebugger, IDebuggerHandler } from '@jupyterlab/debugger';
import { firstLine, RankDebug } from '../model/rank_debug';
import { sentence } from '../model/server';
import { DebugRoute } from '../notebook/debug_route';
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
    const debuggers = new Debuggers(distributed, service, handler);
    const isEnabled = (given: Given): boolean => targetOf(shell, distributed, given) !== null;
    const begin = async (given: Given): Promise<NotebookPanel | null> => {
      const panel = targetOf(shell, distributed, given);
      const rank = panel === null ? null : await rankOf(distributed, panel, given);
      if (panel === null || rank === null || !(await debuggers.begin(panel, rank))) {
        return null;
      }
      shell.activateById(panel.id);
      await commands.execute('debugger:show-panel').catch(() => undefined);
      return panel;
    };
    commands.addCommand(CommandIDs.debugRank, {
      label: trans.__('Debug on a Rank…'),
      isEnabled,
      execute: async (given: Given) => void (await begin(given)),
    });
    commands.addCommand(CommandIDs.debugCell, {
      label: trans.__('Debug This Cell on a Rank…'),
      isEnabled,
      execute: async (given: Given) => {
        const panel = await begin(given);
        if (panel !== null && (await debuggers.holdFirstLine(panel))) {
          void commands.execute('notebook:run-cell');
        }
      },
    });
    const all = [CommandIDs.debugRank, CommandIDs.debugCell];
    const changed = (): void => all.forEach((id) => commands.notifyCommandChanged(id));
    hub.changed.connect(changed);
    notebook.changed.connect(changed);
    inPalette(palette, trans, all);
  },
};

/** What is debugged: of a notebook one rank at a time, as JupyterLab debugs one session at a time. */
class Debuggers {
  private readonly routes = new Map<string, { readonly debug: RankDebug; readonly route: DebugRoute }>();

  constructor(
    private readonly distributed: Distributed,
    private readonly service: IDebugger,
    private readonly handler: IDebugger.IHandler,
  ) {}

  /** Debug a rank; return whether it is debugged. */
  async begin(panel: NotebookPanel, rank: number): Promise<boolean> {
    const session = panel.sessionContext.session;
    const kernel = session?.kernel ?? null;
    if (session === null || kernel === null) {
      return false;
    }
    const before = this.routes.get(kernel.id);
    if (before !== undefined && before.debug.rank === rank && !before.debug.isOver) {
      return true;
    }
    const { server, trans, hub } = this.distributed;
    const debug = new RankDebug(server, kernel.id, rank);
    try {
      await this.handler.updateWidget(panel, session);
      if (this.service.isStarted) {
        // The kernel itself, or another rank.
        await this.service.stop();
      }
      await debug.begin();
      this.routes.set(kernel.id, { debug, route: new DebugRoute(kernel, debug) });
      debug.ended.connect((_, why) => void this.end(panel, kernel.id, why));
      await this.handler.updateWidget(panel, session);
      await this.service.restoreState(true);
      // It puts the gutters beside the cells' lines, now that the debugger is started.
      await this.handler.updateWidget(panel, session);
      this.service.model.title = trans.__('Rank %1 of %2', rank, hub.kernels.get(kernel.id)?.cluster?.name ?? panel.context.path);
      return true;
    } catch (error) {
      await this.end(panel, kernel.id, sentence(error));
      return false;
    }
  }

  /** Have the active cell held at its first line, unless it has breakpoints; return whether there is such a line. */
  async holdFirstLine(panel: NotebookPanel): Promise<boolean> {
    const source = panel.content.activeCell?.model.sharedModel.getSource() ?? '';
    const line = firstLine(source);
    const { service } = this;
    if (line > 0 && service.model.breakpoints.getBreakpoints(service.getCodeId(source)).length === 0) {
      await service.updateBreakpoints(source, [{ line, verified: true, source: { name: panel.context.path } }]);
    }
    return line > 0;
  }

  private async end(panel: NotebookPanel, kernel: string, why: string): Promise<void> {
    const { trans } = this.distributed;
    this.routes.get(kernel)?.route.dispose();
    this.routes.delete(kernel);
    if (why !== '') {
      if (!panel.isDisposed) {
        // The kernel's own debugger is asked now, and is not started.
        await this.handler.updateWidget(panel, panel.sessionContext.session);
      }
      await showDialog({ title: trans.__('The rank is not debugged'), body: why, buttons: [Dialog.okButton()] });
    }
  }
}
