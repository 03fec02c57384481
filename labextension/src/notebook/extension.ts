// A cell that runs on ranks needs jupyter_ddl loaded in its kernel: a user of the switch need not know.
import type { Kernel } from '@jupyterlab/services';
import type { HubModel } from '../model/hub';
import type { NotebookPanel } from './panels';

const LOAD = '%load_ext jupyter_ddl';

/** Loads jupyter_ddl in the kernels of notebooks whose user has pressed the switch. */
export class ExtensionLoader {
  private readonly wanted = new Set<NotebookPanel>();

  constructor(private readonly hub: HubModel) {}

  /** Have a notebook's kernel know `%%distributed`, now and after each of its restarts. */
  want(panel: NotebookPanel): void {
    this.begin(panel);
    if (this.wanted.has(panel)) {
      return;
    }
    this.wanted.add(panel);
    panel.disposed.connect(() => this.wanted.delete(panel));
    const { sessionContext } = panel;
    let isNew = false;
    sessionContext.kernelChanged.connect(() => this.begin(panel));
    sessionContext.statusChanged.connect((_, status) => {
      isNew = isNew || status === 'restarting' || status === 'autorestarting';
      if (isNew && status === 'idle') {
        isNew = false;
        this.begin(panel);
      }
    });
  }

  private begin(panel: NotebookPanel): void {
    // It rejects where the kernel ends meanwhile: the next one is asked again.
    this.load(panel).catch((reason: unknown) => console.debug('jupyter_ddl:', reason));
  }

  private async load(panel: NotebookPanel): Promise<void> {
    const kernel = panel.sessionContext.session?.kernel ?? null;
    if (kernel === null || this.hub.kernels.has(kernel.id) || !(await isPython(kernel))) {
      return;
    }
    // Silent: it is no execution of the user's, and where jupyter_ddl is not installed the cell itself says so.
    await kernel.requestExecute({ code: LOAD, silent: true, store_history: false, allow_stdin: false }).done;
  }
}

async function isPython(kernel: Kernel.IKernelConnection): Promise<boolean> {
  return (await kernel.info).language_info.name === 'python';
}
