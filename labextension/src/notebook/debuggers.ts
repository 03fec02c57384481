// Which rank of each notebook JupyterLab's debugger is led to.
import { Dialog, showDialog } from '@jupyterlab/apputils';
import type { IDebugger } from '@jupyterlab/debugger';
import type { Kernel } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { HubModel } from '../model/hub';
import { firstLine, RankDebug } from '../model/rank_debug';
import { sentence, type Server } from '../model/server';
import { emit, lead, leadBack } from './debug_route';
import type { NotebookPanel } from './panels';

interface Distributed {
  readonly hub: HubModel;
  readonly server: Server;
  readonly trans: TranslationBundle;
}

/** What is debugged: of a notebook one rank at a time, as JupyterLab debugs one session at a time. */
export class Debuggers {
  private readonly all = new Map<string, RankDebug>();

  constructor(
    private readonly distributed: Distributed,
    private readonly service: IDebugger,
    private readonly handler: IDebugger.IHandler,
  ) {}

  /** Debug a rank; return whether it is debugged. */
  async begin(panel: NotebookPanel, rank: number): Promise<boolean> {
    const { session } = panel.sessionContext;
    const kernel = session?.kernel ?? null;
    if (kernel === null || this.all.get(kernel.id)?.rank === rank) {
      return kernel !== null;
    }
    const { service, handler } = this;
    const { server, trans, hub } = this.distributed;
    const end = (why: string): Promise<void> => this.end(panel, kernel, why);
    try {
      await handler.updateWidget(panel, session);
      if (service.isStarted) {
        // The kernel itself, or another rank.
        await service.stop();
      }
      const debug = new RankDebug(server, kernel.id, rank, (event) => emit(kernel, event), (why) => void end(why));
      this.all.set(kernel.id, debug);
      lead(kernel, debug);
      await handler.updateWidget(panel, session);
      await service.restoreState(true);
      // It puts the gutters beside the cells' lines, now that the debugger is started.
      await handler.updateWidget(panel, session);
      service.model.title = trans.__('Rank %1 of %2', rank, hub.kernels.get(kernel.id)?.cluster?.name ?? panel.context.path);
      return true;
    } catch (error) {
      await end(sentence(error));
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

  private async end(panel: NotebookPanel, kernel: Kernel.IKernelConnection, why: string): Promise<void> {
    const { trans } = this.distributed;
    this.all.get(kernel.id)?.dispose();
    this.all.delete(kernel.id);
    leadBack(kernel);
    if (why !== '') {
      if (!panel.isDisposed) {
        // The kernel's own debugger is asked now, and is not started.
        await this.handler.updateWidget(panel, panel.sessionContext.session);
      }
      await showDialog({ title: trans.__('The rank is not debugged'), body: why, buttons: [Dialog.okButton()] });
    }
  }
}
