// Back from a run to the cell that it is of.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { RunDetails } from '../model/server';
import { asNotebook, type NotebookPanel } from './panels';

/** Open a run's notebook and select its cell; return why the notebook cannot be opened, empty where it can. */
export async function goToCell(app: JupyterFrontEnd, trans: TranslationBundle, { record, place }: RunDetails): Promise<string> {
  const { cell_id: cell, notebook, script } = record;
  const open = [...app.shell.widgets('main')].map(asNotebook).filter((panel) => panel !== null);
  // One that was renamed, or moved, is known by its cell.
  const panel =
    open.find(({ context }) => place.path !== null && context.path === place.path) ?? open.find((one) => cell !== null && cellAt(one, cell) >= 0) ?? null;
  if (panel !== null) {
    await select(app, trans, panel, cell);
    return '';
  }
  if (place.problem !== null || place.path === null) {
    return script === null ? problemText(trans, place.problem, notebook ?? '') : trans.__('A script’s run is of no cell: %1', script);
  }
  const opened = asNotebook((await app.commands.execute('docmanager:open', { path: place.path, factory: 'Notebook' })) ?? null);
  // Notebook 7 opens another notebook in a page of its own.
  if (opened !== null) {
    await select(app, trans, opened, cell);
  }
  return '';
}

function problemText(trans: TranslationBundle, problem: RunDetails['place']['problem'], notebook: string): string {
  switch (problem) {
    case 'outside':
      return trans.__('The notebook is not below the folder of this Jupyter server: %1', notebook);
    case 'gone':
      return trans.__('The notebook was deleted, moved or renamed since: %1', notebook);
    default:
      return trans.__('The run does not say which notebook it is of.');
  }
}

async function select(app: JupyterFrontEnd, trans: TranslationBundle, panel: NotebookPanel, cell: string | null): Promise<void> {
  app.shell.activateById(panel.id);
  await panel.context.ready;
  await panel.revealed;
  const at = cell === null ? -1 : cellAt(panel, cell);
  if (at >= 0) {
    const { content } = panel;
    content.deselectAll();
    content.activeCellIndex = at;
    await content.scrollToItem(at, 'center');
    return;
  }
  // The notebook is in front now, and not where it was asked for.
  const text = cell === null ? trans.__('The run does not say which cell of the notebook it is of.') : trans.__('The run’s cell was deleted from this notebook.');
  Notification.warning(text, { autoClose: 8000 });
}

function cellAt({ content }: NotebookPanel, cell: string): number {
  return content.widgets.findIndex(({ model }) => model.id === cell);
}
