// What the start form says, checked as it is typed, and the line that it comes to. No DOM.
import { whole } from './number_texts';
import { COUNT, type ExportRequest, isQueue, jobErrors, type JobFields, jobOptions, type Place } from './place';
import type { Words } from './words';

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

export interface StartFields extends JobFields {
  /** Null for this host. */
  readonly place: Place | null;
  readonly ranks: string;
  /** The devices to use; null for all of them, empty for the cores. */
  readonly gpus: readonly string[] | null;
  readonly threads: string;
  readonly name: string;
  readonly oversubscribe: boolean;
  /** The ranks outlive the notebook's kernel. */
  readonly keep: boolean;
}

/** The fields that are typed into. */
export const START_FIELDS = ['ranks', 'nodes', 'perNode', 'time', 'partition', 'threads', 'name'] as const;
export type StartField = (typeof START_FIELDS)[number];

/** What is kept of a form: the texts of its fields, but for the name. */
export type KeptFields = Partial<Record<Exclude<StartField, 'name'>, string>>;

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
  /** How many it gets where no number is given, and there is no GPU. */
  readonly ranks: number;
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
const DEFAULT_NAME = 'default';
// A rank with TensorFlow and Horovod imported, as measured; a model comes on top.
const RANK_BYTES = 0.8 * 2 ** 30;
export const NOWHERE: Surroundings = { taken: new Map(), proposed: DEFAULT_NAME, host: null };

/** Return a name that no cluster has: default, or one after the notebook. */
export function proposeName(taken: Pick<ReadonlySet<string>, 'has'>, notebook: string | null): string {
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

/** Return the line that starts ranks where nothing is chosen. */
export function plainStart(taken: ReadonlySet<string>, notebook: string | null): string {
  const name = proposeName(taken, notebook);
  return name === DEFAULT_NAME ? '%ddl start' : `%ddl start --name ${name}`;
}

/** Return the code of the cell that starts ranks as a line does, in a kernel that knows nothing of them. */
export function startCell(line: string): string {
  return `%load_ext jupyter_ddl\n${line}`;
}

/** Check what is typed, and return the line that it comes to. */
export function planStart(typed: StartFields, devices: readonly Device[], around: Surroundings, trans: Words): StartPlan {
  const fields = { ...typed, ...Object.fromEntries(START_FIELDS.map((name) => [name, typed[name].trim()])) };
  const { place, name } = fields;
  const isJob = place !== null && isQueue(place);
  // The devices are this host's.
  const isElsewhere = place?.launcher === 'hosts';
  const here = isElsewhere ? [] : devices;
  fields.gpus = isElsewhere ? null : typed.gpus;
  const errors: Partial<Record<StartField, string>> = isJob ? jobErrors(fields, place, trans) : rankErrors(fields, here, trans);
  if (name !== '' && !NAME.test(name)) {
    errors.name = trans.__('A name has 1 to 64 letters, digits, dots, underscores or hyphens, with no dot in front.');
  } else if (around.taken.has(name)) {
    errors.name = trans.__('%1 runs already (%2). Write another name, or run %ddl attach %1 to use its ranks.', name, around.taken.get(name));
  }
  if (Object.keys(errors).length > 0) {
    return { errors, warning: '', line: null };
  }
  const called = name === '' ? around.proposed : name;
  const options = [
    isJob ? '%ddl submit' : '%ddl start',
    place === null || place.profile === null ? '' : `--profile ${place.profile}`,
    ...(isJob ? jobOptions(fields) : rankOptions(fields)),
    called === DEFAULT_NAME ? '' : `--name ${called}`,
    fields.oversubscribe && !isJob ? '--oversubscribe' : '',
    fields.keep ? '--keep' : '',
  ];
  const line = options.filter((option) => option !== '').join(' ');
  const isOnCores = here.length === 0 || fields.gpus?.length === 0;
  return { errors, warning: !isJob && !isElsewhere ? wantOf(Number(fields.ranks), isOnCores, around.host, trans) : '', line };
}

/** Return what is asked for to make a job of the notebook; the form has nothing that is wrong. */
export function exportOf(fields: StartFields): ExportRequest {
  const { place } = fields;
  const queue = place !== null && isQueue(place) ? place : null;
  const text = (value: string): string | null => (queue === null || value.trim() === '' ? null : value.trim());
  const count = (value: string): number | null => (value.trim() === '' ? null : Number(value));
  return {
    kind: queue === null ? 'script' : (queue.launcher as 'slurm' | 'pbs' | 'lsf'),
    profile: place?.profile ?? null,
    ranks: queue === null ? count(fields.ranks) : null,
    nodes: queue === null ? null : count(fields.nodes),
    ntasks_per_node: queue === null ? null : count(fields.perNode),
    time: text(fields.time),
    partition: text(fields.partition),
  };
}

function rankErrors(fields: StartFields, devices: readonly Device[], trans: Words): Partial<Record<StartField, string>> {
  const { ranks, threads, gpus, oversubscribe, place } = fields;
  const errors: Partial<Record<StartField, string>> = {};
  const available = gpus?.length ?? devices.length;
  const most = place?.most_ranks ?? null;
  if (ranks !== '' && !COUNT.test(ranks)) {
    errors.ranks = trans.__('Ranks must be a whole number of at least 1.');
  } else if (most !== null && Number(ranks || (place?.ranks ?? 0)) > most) {
    errors.ranks = trans._n('%2 allows at most %1 rank.', '%2 allows at most %1 ranks.', most, place?.title);
  } else if (available > 0 && Number(ranks) > available && !oversubscribe) {
    errors.ranks = trans.__('Ranks must not outnumber GPUs. Write %1 or less, or let ranks share a GPU.', available);
  }
  if (threads !== '' && !COUNT.test(threads)) {
    errors.threads = trans.__('Threads must be a whole number of at least 1.');
  }
  return errors;
}

function rankOptions({ ranks, threads, gpus }: StartFields): string[] {
  return [
    ranks === '' ? '' : `-n ${ranks}`,
    gpus === null ? '' : `--gpus ${gpus.length === 0 ? 'none' : gpus.join(',')}`,
    threads === '' ? '' : `--threads ${threads}`,
  ];
}

function wantOf(ranks: number, isOnCores: boolean, host: HostRoom | null, trans: Words): string {
  const gib = (bytes: number): string => `${whole(bytes / 2 ** 30)} GiB`;
  if (host === null) {
    return '';
  }
  if (ranks * RANK_BYTES > host.free_bytes) {
    return trans.__('The ranks take about %1 of memory, before any model. Free are %2.', gib(ranks * RANK_BYTES), gib(host.free_bytes));
  }
  return isOnCores && ranks > host.cores ? trans._n('%2 ranks share %1 core, and take turns on it.', '%2 ranks share %1 cores, and take turns on them.', host.cores, ranks) : '';
}
