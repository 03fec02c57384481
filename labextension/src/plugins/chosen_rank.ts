// Which notebook a command is for, and which of its ranks.
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Dialog, InputDialog, showDialog } from '@jupyterlab/apputils';
import { asNotebook, type NotebookPanel } from '../notebook/panels';
import type { Distributed } from '../tokens';
import { type Given, textOf } from './given';

/** Return the notebook whose kernel is named, else the one in front; null where that has no ranks. */
export function targetOf(shell: JupyterFrontEnd.IShell, { hub, notebook }: Distributed, given: Given): NotebookPanel | null {
  const kernel = textOf(given, 'kernel');
  const idOf = (panel: NotebookPanel): string => panel.sessionContext.session?.kernel?.id ?? '';
  const open = [...shell.widgets('main')].map(asNotebook).filter((panel) => panel !== null);
  const panel = kernel === '' ? notebook.panel : (open.find((one) => idOf(one) === kernel) ?? null);
  return panel !== null && hub.withRanks().some((one) => one.kernel === idOf(panel)) ? panel : null;
}

/** Return the rank that is named, or that the user chooses; null where none is. */
export async function rankOf({ trans, hub }: Distributed, panel: NotebookPanel, given: Given): Promise<number | null> {
  const size = hub.kernels.get(panel.sessionContext.session?.kernel?.id ?? '')?.cluster?.world_size ?? 0;
  const named = Number(given['rank'] ?? NaN);
  if (Number.isInteger(named) && named >= 0 && named < size) {
    return named;
  }
  if (size === 0) {
    await showDialog({ title: trans.__('There are no ranks yet'), buttons: [Dialog.okButton()] });
    return null;
  }
  const { value } = await InputDialog.getItem({ title: trans.__('On which rank?'), items: Array.from({ length: size }, (_, rank) => String(rank)) });
  return value === null ? null : Number(value);
}
