// What a run's outputs under its cell carry, as jupyter_ddl/views/run_output.py writes it. No DOM.
import type { JSONObject } from '@lumino/coreutils';
import { isRecord } from './parse';

export const RUN_MIME = 'application/vnd.jupyter-ddl.run+json';
export const SVG = 'image/svg+xml';
export const TEXT = 'text/plain';
const WIDGET = 'application/vnd.jupyter.widget-view+json';
const MARK = 'jupyter-ddl';
const VERSION = 1;
/** As jupyter_ddl/runs/store.py: what a notebook names otherwise is no run, and no path either. */
const ID = /^\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}-[\w.-]{1,64}-[0-9a-f]{4,16}$/;

type Data = Readonly<Record<string, unknown>>;

/** Return the run that an output shows; null for other outputs. */
export function runOf(data: Data): string | null {
  const found = data[RUN_MIME];
  const run = isRecord(found) && found['version'] === VERSION ? found['run'] : null;
  return typeof run === 'string' && ID.test(run) ? run : null;
}

/** Return the kernel's widget that shows the same run; null where there is none. */
export function widgetOf(data: Data): string | null {
  const found = data[WIDGET];
  return isRecord(found) && typeof found['model_id'] === 'string' ? found['model_id'] : null;
}

/** Whether an output has the final state of its run. */
export function isFinal(data: Data): boolean {
  return data[SVG] !== undefined;
}

/** Return the output of a run that is over. */
export function finalOutput(run: string, final: Readonly<Record<string, string>>): JSONObject {
  const data = { [RUN_MIME]: { run, version: VERSION }, ...final };
  return { output_type: 'display_data', data, metadata: {} };
}

/** Return how many lines an output has that are in the log of a run's dashboard too; 0 for other outputs. */
export function linesOf(metadata: Data, run: string): number {
  const mark = metadata[MARK];
  return isRecord(mark) && mark['run'] === run && typeof mark['lines'] === 'number' ? mark['lines'] : 0;
}
