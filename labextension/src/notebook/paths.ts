// Where a kernel's notebook is.
import type { Session } from '@jupyterlab/services';

export class NotebookPaths {
  /** Of kernels that are gone, where their notebook was. */
  private readonly last = new Map<string, string>();

  constructor(private readonly sessions: Session.IManager) {
    sessions.runningChanged.connect((_, running) => this.note(running));
  }

  /** Return the path of a kernel's notebook; null where no session of the server has had the kernel. */
  of(kernel: string): string | null {
    this.note(this.sessions.running());
    return this.last.get(kernel) ?? null;
  }

  private note(running: Iterable<Session.IModel>): void {
    const known = new Set<string>();
    for (const { kernel, path } of running) {
      // Of two notebooks with one kernel, the one that had it first.
      if (kernel != null && !known.has(kernel.id)) {
        known.add(kernel.id);
        this.last.set(kernel.id, path);
      }
    }
  }
}
