// What stands under a cell that wanted ranks where there were none. No DOM.
import { isRecord } from './parse';

// Source: jupyterlab 4, packages/rendermime/src/outputmodel.ts, getData
const ERROR = 'application/vnd.jupyter.error';
const STDERR = 'application/vnd.jupyter.stderr';
/** How the error begins. As jupyter_ddl/kernel/current.py raises it. */
const NO_RANKS = 'Ranks must run before a cell can go to them.';
/** Of a kernel that knows nothing of jupyter_ddl. Source: ipython 9.18, IPython/core/interactiveshell.py, run_cell_magic */
const NO_MAGIC = 'Cell magic `%%distributed` not found.';

/** Whether an output of a cell, by MIME type, says that ranks are to be started before the cell can run. */
export function wantsRanks(data: Readonly<Record<string, unknown>>): boolean {
  const error = data[ERROR];
  const value = isRecord(error) ? String(error['evalue'] ?? '') : '';
  return value.startsWith(NO_RANKS) || value.startsWith(NO_MAGIC) || String(data[STDERR] ?? '').includes(NO_MAGIC);
}
