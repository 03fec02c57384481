// What the start form says, checked as it is typed, and the line that it comes to. No DOM.

export interface Device {
  readonly index: number;
  readonly name: string;
  readonly uuid: string;
  /** As `--gpus` takes it: the index, or the UUID of a part of a GPU (MIG), which shares its index with the other parts. */
  readonly device: string;
  readonly total_bytes: number;
  /** Null where the driver does not say. */
  readonly free_bytes: number | null;
}

export interface StartFields {
  readonly ranks: string;
  /** The devices to use; null for all of them, empty for the cores. */
  readonly gpus: readonly string[] | null;
  readonly threads: string;
  readonly name: string;
  readonly oversubscribe: boolean;
  /** The ranks outlive the notebook's kernel. */
  readonly keep: boolean;
}

export type StartField = 'ranks' | 'threads' | 'name';

/** What there is already where ranks are to be started. */
export interface Surroundings {
  /** The names of the clusters that run -> where. */
  readonly taken: ReadonlyMap<string, string>;
  /** The name of a cluster whose name is left open. */
  readonly proposed: string;
  /** What this host has for ranks; null where that is not known. */
  readonly host: HostRoom | null;
}

export interface HostRoom {
  readonly cores: number;
  readonly free_bytes: number;
}

export interface StartPlan {
  readonly errors: Readonly<Partial<Record<StartField, string>>>;
  /** What the ranks will want for, though they can be started; empty where that is nothing. */
  readonly warning: string;
  /** The magic to run; null while something is wrong. */
  readonly line: string | null;
}

// As jupyter_ddl/cluster/spec.py has it; the kernel checks again.
const NAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$/;
const COUNT = /^[1-9][0-9]{0,4}$/;
const DEFAULT_NAME = 'default';
// A rank with TensorFlow and Horovod imported, as measured; a model comes on top.
const RANK_BYTES = 0.8 * 2 ** 30;
export const NOWHERE: Surroundings = { taken: new Map(), proposed: DEFAULT_NAME, host: null };

/** Return a name that no cluster has: default, or one after the notebook. */
export function proposeName(taken: ReadonlyMap<string, string>, notebook: string | null): string {
  const stem = (notebook ?? '').replace(/^.*\//, '').replace(/\.[^.]*$/, '').replace(/[^A-Za-z0-9._-]+/g, '-').replace(/^[.-]+|-+$/g, '').slice(0, 60);
  const names = [DEFAULT_NAME, ...(NAME.test(stem) ? [stem] : [])];
  const base = names.at(-1)!;
  for (let at = 2; ; at++) {
    const free = names.find((name) => !taken.has(name));
    if (free !== undefined) {
      return free;
    }
    names.push(`${base}-${at}`);
  }
}

export function planStart(fields: StartFields, devices: readonly Device[], around: Surroundings = NOWHERE): StartPlan {
  const errors: Partial<Record<StartField, string>> = {};
  const ranks = fields.ranks.trim();
  const threads = fields.threads.trim();
  const name = fields.name.trim();
  const available = fields.gpus?.length ?? devices.length;
  if (ranks !== '' && !COUNT.test(ranks)) {
    errors.ranks = 'Ranks must be a whole number of at least 1.';
  } else if (available > 0 && Number(ranks) > available && !fields.oversubscribe) {
    errors.ranks = `Ranks must not outnumber GPUs. Write ${available} or less, or let ranks share a GPU.`;
  }
  if (threads !== '' && !COUNT.test(threads)) {
    errors.threads = 'Threads must be a whole number of at least 1.';
  }
  if (name !== '' && !NAME.test(name)) {
    errors.name = 'A name has 1 to 64 letters, digits, dots, underscores or hyphens, with no dot in front.';
  } else if (around.taken.has(name)) {
    errors.name = `${name} runs already, in ${around.taken.get(name)}. Write another name, or run %ddl attach ${name} to use its ranks.`;
  }
  if (Object.keys(errors).length > 0) {
    return { errors, warning: '', line: null };
  }
  const called = name === '' ? around.proposed : name;
  const options = [
    ranks === '' ? '' : `-n ${ranks}`,
    fields.gpus === null ? '' : `--gpus ${fields.gpus.length === 0 ? 'none' : fields.gpus.join(',')}`,
    threads === '' ? '' : `--threads ${threads}`,
    called === DEFAULT_NAME ? '' : `--name ${called}`,
    fields.oversubscribe ? '--oversubscribe' : '',
    fields.keep ? '--keep' : '',
  ];
  const isOnCores = devices.length === 0 || fields.gpus?.length === 0;
  const line = ['%ddl start', ...options.filter((option) => option !== '')].join(' ');
  return { errors, warning: wantOf(Number(ranks), isOnCores, around.host), line };
}

function wantOf(ranks: number, isOnCores: boolean, host: HostRoom | null): string {
  const gib = (bytes: number): string => `${Math.round(bytes / 2 ** 30)} GiB`;
  if (host === null) {
    return '';
  }
  if (ranks * RANK_BYTES > host.free_bytes) {
    return `${ranks} ranks take about ${gib(ranks * RANK_BYTES)} of memory, before any model. Free are ${gib(host.free_bytes)}.`;
  }
  return isOnCores && ranks > host.cores ? `${ranks} ranks share ${host.cores} cores, and take turns on them.` : '';
}
