// The final state that a run leaves in its output. The kernel sends it to the page that ran the cell; a page that was loaded
// meanwhile gets nothing of that cell any more, and so takes it from the server, for the notebook that is saved.
import type { HubModel } from '../model/hub';
import type { Notice } from '../model/notice';
import { CUT_OFF } from '../model/open_ends';
import { finalOutput, isFinal, runOf } from '../model/run_output';
import type { Server } from '../model/server';
import type { NotebookCell, NotebookPanel } from './panels';

/** Keep a notebook's final states until it is closed. */
export function keepPictures(panel: NotebookPanel, hub: HubModel, server: Server): void {
  const look = async (ended: string | null): Promise<void> => {
    const all = panel.content.widgets.flatMap((cell) => lackingIn(cell).map((run) => ({ cell, run })));
    const lacking = all.filter(({ run }) => ended === null || run === ended);
    for (const { cell, run } of lacking) {
      if (!hub.isConnected) {
        return;
      }
      const record = await server.runOrNull(run);
      // The page that runs a cell gets its outputs, unless the kernel dies.
      const comes = (cell.outputArea?.future ?? null) !== null && record?.state !== CUT_OFF;
      const final = record === null || comes ? null : await server.pictureOrNull(run);
      if (final !== null && !panel.isDisposed) {
        put(cell, run, final);
      }
    }
  };
  const later = (ended: string | null = null): void => {
    // A server that does not answer is asked again when it is back.
    look(ended).catch((reason: unknown) => console.debug('jupyter_ddl:', reason));
  };
  const noticed = (_: unknown, { run, state }: Notice): void => void (state !== 'running' && later(run));
  const opened = (_: unknown, isOpen: boolean): void => void (isOpen && later());
  hub.noticed.connect(noticed);
  server.opened.connect(opened);
  panel.disposed.connect(() => {
    hub.noticed.disconnect(noticed);
    server.opened.disconnect(opened);
  });
  void panel.context.ready.then(() => later());
}

/** Return the runs that a cell shows without their final state. */
function lackingIn({ model: { outputs } }: NotebookCell): string[] {
  const runs: string[] = [];
  for (let at = 0; at < (outputs?.length ?? 0); at++) {
    const { data } = outputs!.get(at);
    const run = runOf(data);
    if (run !== null && !isFinal(data)) {
      runs.push(run);
    }
  }
  return runs;
}

/** Put a run's final state into its output, where that still lacks it. */
function put({ model: { outputs } }: NotebookCell, run: string, final: Readonly<Record<string, string>>): void {
  for (let at = 0; at < (outputs?.length ?? 0); at++) {
    const { data } = outputs!.get(at);
    if (runOf(data) === run && !isFinal(data)) {
      outputs!.set(at, finalOutput(run, final));
    }
  }
}
