// The runs on disk, as the server lists them. No DOM.
import { isRecord, numberOrNull } from './parse';

export interface RunRecord {
  readonly run: string;
  readonly start_s: number;
  readonly ranks: readonly number[];
  readonly world_size: number;
  readonly state: string;
  readonly seconds: number | null;
  readonly samples_per_s: number | null;
  readonly loss: number | null;
  readonly model: string | null;
  readonly computes_on: string | null;
  /** As its command line named it; null of a cell. */
  readonly script: string | null;
  /** The path of the cell's notebook when its kernel started. */
  readonly notebook: string | null;
  /** JupyterLab's id of the cell. */
  readonly cell_id: string | null;
  /** The number in the cell's brackets. */
  readonly cell_number: number | null;
  readonly name: string | null;
  readonly note: string | null;
  readonly tags: readonly string[];
}

export interface RunPage {
  readonly runs: readonly RunRecord[];
  readonly more: boolean;
  /** The run before which the next page begins; null where there is none. */
  readonly next: string | null;
}

const textOrNull = (value: unknown): string | null => (typeof value === 'string' ? value : null);

/** Return the record in an answer, or null for what is none. */
export function recordOf(value: unknown): RunRecord | null {
  if (!isRecord(value) || typeof value['run'] !== 'string') {
    return null;
  }
  const ranks = value['ranks'];
  const tags = value['tags'];
  return {
    run: value['run'],
    start_s: numberOrNull(value['start_s']) ?? 0,
    ranks: Array.isArray(ranks) ? ranks.filter((rank) => typeof rank === 'number') : [],
    world_size: numberOrNull(value['world_size']) ?? 0,
    state: textOrNull(value['state']) ?? 'unknown',
    seconds: numberOrNull(value['seconds']),
    samples_per_s: numberOrNull(value['samples_per_s']),
    loss: numberOrNull(value['loss']),
    model: textOrNull(value['model']),
    computes_on: textOrNull(value['computes_on']),
    script: textOrNull(value['script']),
    notebook: textOrNull(value['notebook']),
    cell_id: textOrNull(value['cell_id']),
    cell_number: numberOrNull(value['cell_number']),
    name: textOrNull(value['name']),
    note: textOrNull(value['note']),
    tags: Array.isArray(tags) ? tags.filter((tag) => typeof tag === 'string') : [],
  };
}

/** Return a run's id without the time, which is shown beside it. */
export function idText(run: string): string {
  return run.replace(/^[\dT-]+-(?=\D)/, '');
}

/** Return where a run comes from, as a cell is known: `train.ipynb [7]`, or `train.py`; empty where that is not known. */
export function cellText({ script, notebook, cell_number: number }: Pick<RunRecord, 'script' | 'notebook' | 'cell_number'>): string {
  const name = (notebook ?? script)?.split('/').pop() ?? '';
  return name === '' || number === null ? name : `${name} [${number}]`;
}

export function runPageOf(value: unknown): RunPage {
  if (!isRecord(value) || !Array.isArray(value['runs'])) {
    throw new TypeError('A list of runs must have runs.');
  }
  const runs = value['runs'].map(recordOf).filter((record) => record !== null);
  return { runs, more: value['more'] === true, next: textOrNull(value['next']) };
}
