// A cell that runs on ranks needs jupyter_ddl loaded in its kernel: a user of the switch need not know.
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
    let [isRestarting, hasDied] = [false, false];
    sessionContext.kernelChanged.connect(() => this.begin(panel));
    sessionContext.statusChanged.connect((_, status) => {
      const isAgain = status === 'restarting' && isRestarting;
      isRestarting = status === 'restarting';
      hasDied ||= status === 'autorestarting';
      if (isRestarting && !isAgain) {
        // What is sent now waits for the new kernel, before all cells, as in whole_notebook.ts.
        void Promise.resolve().then(() => this.begin(panel, true));
      } else if (status === 'idle' && hasDied) {
        hasDied = false;
        this.begin(panel, true);
      }
    });
  }

  /** @param isNew whether the kernel was started again, whatever the hub knows of the one before. */
  private begin(panel: NotebookPanel, isNew = false): void {
    // It rejects where the kernel ends meanwhile: the next one is asked again.
    this.load(panel, isNew).catch((reason: unknown) => console.debug('jupyter_ddl:', reason));
  }

  private async load({ sessionContext }: NotebookPanel, isNew: boolean): Promise<void> {
    const kernel = sessionContext.session?.kernel ?? null;
    if (kernel === null || (!isNew && this.hub.kernels.has(kernel.id))) {
      return;
    }
    // As its specification says, at once: a cell may be waiting for the kernel, and this is to come before it.
    const language = sessionContext.specsManager.specs?.kernelspecs[kernel.name]?.language ?? (await kernel.info).language_info.name;
    if (language === 'python') {
      // Silent: it is no execution of the user's, and where jupyter_ddl is not installed the cell itself says so.
      await kernel.requestExecute({ code: LOAD, silent: true, store_history: false, allow_stdin: false }).done;
    }
  }
}
