// The picture that a run leaves under its cell. The kernel sends it to the page that ran the cell; a page that was loaded
// meanwhile gets nothing of that cell any more, and so takes the picture from the server, for the notebook that is saved.
import type { HubModel } from '../model/hub';
import { CUT_OFF } from '../model/open_ends';
import type { Server } from '../model/server';
import type { NotebookCell, NotebookPanel } from './panels';
import { runOf } from './run_output';

const SVG = 'image/svg+xml';
/** What the picture is named by. As jupyter_ddl/views/picture.py writes it. */
const MARK = 'jupyter-ddl-final-state';

/** Keep a notebook's pictures until it is closed. */
export function keepPictures(panel: NotebookPanel, hub: HubModel, server: Server): void {
  const look = async (): Promise<void> => {
    for (const cell of panel.content.widgets) {
      const run = lacking(cell);
      if (run === null || !hub.isConnected) {
        continue;
      }
      const record = await server.runOrNull(run);
      // The page that runs a cell gets its outputs, unless the kernel dies.
      const comes = (cell.outputArea?.future ?? null) !== null && record?.state !== CUT_OFF;
      const picture = record === null || comes ? null : await server.pictureOrNull(run);
      if (picture !== null && lacking(cell) === run && !panel.isDisposed) {
        cell.model.outputs?.add({ output_type: 'display_data', data: { ...picture }, metadata: {} });
      }
    }
  };
  const later = (): void => {
    // A server that does not answer is asked again when it is back.
    look().catch((reason: unknown) => console.debug('jupyter_ddl:', reason));
  };
  const noticed = (_: unknown, { state }: { readonly state: string }): void => void (state !== 'running' && later());
  const opened = (_: unknown, isOpen: boolean): void => void (isOpen && later());
  hub.noticed.connect(noticed);
  server.opened.connect(opened);
  panel.disposed.connect(() => {
    hub.noticed.disconnect(noticed);
    server.opened.disconnect(opened);
  });
  void panel.context.ready.then(later);
}

/** Return the run that a cell shows and has no picture of; null where there is none. */
function lacking(cell: NotebookCell): string | null {
  const { outputs } = cell.model;
  let run: string | null = null;
  for (let at = 0; at < (outputs?.length ?? 0); at++) {
    const { data } = outputs!.get(at);
    run = runOf(data) ?? run;
    if (run !== null && String(data[SVG] ?? '').includes(MARK)) {
      run = null;
    }
  }
  return run;
}
