// What stands under a cell that wanted ranks where there were none. No DOM.
import { isRecord } from './parse';

// Source: jupyterlab 4, packages/rendermime/src/outputmodel.ts, getData
const ERROR = 'application/vnd.jupyter.error';
const STDERR = 'application/vnd.jupyter.stderr';
/** How the error begins. As jupyter_ddl/kernel/current.py raises it. */
const NO_RANKS = 'Ranks must run before a cell can go to them.';
/** Of a kernel that knows nothing of jupyter_ddl. Source: ipython 9.18, IPython/core/interactiveshell.py, run_cell_magic */
const NO_MAGIC = 'Cell magic `%%distributed` not found.';

/** Of ranks that were ended as idle. As jupyter_ddl/kernel/settling.py raises it. */
export const RESTART = '%ddl restart';
const ENDED = /^Ranks must run\. Received: the cluster .*%ddl restart starts it again(, with its variables)?\.$/s;

/** The line that starts the ranks that an output of a cell, by MIME type, asks for; null where it asks for none. */
export function startOf(data: Readonly<Record<string, unknown>>): '%ddl start' | typeof RESTART | null {
  const error = data[ERROR];
  const value = isRecord(error) ? String(error['evalue'] ?? '') : '';
  const wantsStart = value.startsWith(NO_RANKS) || value.startsWith(NO_MAGIC) || String(data[STDERR] ?? '').includes(NO_MAGIC);
  return wantsStart ? '%ddl start' : ENDED.test(value) ? RESTART : null;
}
