// The places, besides the server's host, where ranks may be started, and what a job there takes. No DOM.
import type { Words } from './words';

export interface Place {
  /** Null for the queue of the scheduler itself. */
  readonly profile: string | null;
  readonly launcher: 'local' | 'hosts' | 'slurm' | 'pbs' | 'lsf';
  readonly title: string;
  readonly description: string;
  /** What is taken where nothing is written; null where the place does not say. */
  readonly ranks: number | null;
  readonly nodes: number | null;
  readonly ntasks_per_node: number | null;
  readonly time: string | null;
  readonly partition: string | null;
  /** The most that is allowed; null where there is no limit. */
  readonly most_ranks: number | null;
  readonly most_nodes: number | null;
  readonly most_time: string | null;
}

/** Whether ranks come there by a batch job. */
export function isQueue(place: Place | null): boolean {
  return place !== null && place.launcher !== 'local' && place.launcher !== 'hosts';
}

/** What is asked of the server to make a batch job of a notebook; null for what was not written. */
export interface ExportRequest {
  readonly kind: 'slurm' | 'pbs' | 'lsf' | 'script';
  readonly profile: string | null;
  readonly ranks: number | null;
  readonly nodes: number | null;
  readonly ntasks_per_node: number | null;
  readonly time: string | null;
  readonly partition: string | null;
}

/** What was written for a job. */
export interface JobFields {
  readonly nodes: string;
  readonly perNode: string;
  readonly time: string;
  readonly partition: string;
}

export const COUNT = /^[1-9][0-9]{0,4}$/;
// As jupyter_ddl/launch/profiles/limits.py has it.
const TIME = /^(?:(\d{1,3})-)?(\d{1,4}):(\d{2})(?::(\d{2}))?$/;
const PARTITION = /^[A-Za-z0-9_][A-Za-z0-9_.,@:-]*$/;

/** Return the seconds of a wall time; null for other text. */
export function secondsOf(time: string): number | null {
  const found = TIME.exec(time);
  if (found === null) {
    return null;
  }
  const [days, hours, minutes, seconds] = found.slice(1).map((part) => Number(part ?? 0)) as [number, number, number, number];
  return ((days * 24 + hours) * 60 + minutes) * 60 + seconds;
}

/** Return what is wrong with what was written for a job, by field. */
export function jobErrors(fields: JobFields, place: Place, trans: Words): Partial<Record<keyof JobFields, string>> {
  const { nodes, perNode, time, partition } = fields;
  const errors: Partial<Record<keyof JobFields, string>> = {};
  const nodeCount = Number(nodes || (place.nodes ?? 1));
  const ranks = nodeCount * Number(perNode || (place.ntasks_per_node ?? 1));
  if (nodes !== '' && !COUNT.test(nodes)) {
    errors.nodes = trans.__('Nodes must be a whole number of at least 1.');
  } else if (place.most_nodes !== null && nodeCount > place.most_nodes) {
    errors.nodes = trans._n('%2 allows at most %1 node.', '%2 allows at most %1 nodes.', place.most_nodes, place.title);
  }
  if (perNode !== '' && !COUNT.test(perNode)) {
    errors.perNode = trans.__('Ranks per node must be a whole number of at least 1.');
  } else if (place.most_ranks !== null && ranks > place.most_ranks) {
    errors.perNode = trans._n('%2 allows at most %1 rank.', '%2 allows at most %1 ranks.', place.most_ranks, place.title);
  }
  const seconds = secondsOf(time);
  if (time !== '' && seconds === null) {
    errors.time = trans.__('A time is written as hours:minutes, e.g. 1:30.');
  } else if (place.most_time !== null && seconds !== null && seconds > (secondsOf(place.most_time) ?? Infinity)) {
    errors.time = trans.__('%1 allows at most a time of %2.', place.title, place.most_time);
  }
  if (partition !== '' && !PARTITION.test(partition)) {
    errors.partition = trans.__('A partition has letters, digits, dots, underscores or hyphens.');
  }
  return errors;
}

/** Return the options of `%ddl submit` for what was written. */
export function jobOptions({ nodes, perNode, time, partition }: JobFields): string[] {
  return [
    nodes === '' ? '' : `-N ${nodes}`,
    perNode === '' ? '' : `--ntasks-per-node ${perNode}`,
    time === '' ? '' : `--time ${time}`,
    partition === '' ? '' : `-p ${partition}`,
  ];
}
