// The places, besides the server's host, where ranks may be started, and what a job there takes. No DOM.

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
export function jobErrors({ nodes, perNode, time, partition }: JobFields, place: Place): Partial<Record<keyof JobFields, string>> {
  const errors: Partial<Record<keyof JobFields, string>> = {};
  const most = (what: string): string => `${place.title} allows at most ${what}.`;
  const nodeCount = Number(nodes || (place.nodes ?? 1));
  const ranks = nodeCount * Number(perNode || (place.ntasks_per_node ?? 1));
  if (nodes !== '' && !COUNT.test(nodes)) {
    errors.nodes = 'Nodes must be a whole number of at least 1.';
  } else if (place.most_nodes !== null && nodeCount > place.most_nodes) {
    errors.nodes = most(`${place.most_nodes} nodes`);
  }
  if (perNode !== '' && !COUNT.test(perNode)) {
    errors.perNode = 'Ranks per node must be a whole number of at least 1.';
  } else if (place.most_ranks !== null && ranks > place.most_ranks) {
    errors.perNode = most(`${place.most_ranks} ranks in all`);
  }
  const seconds = secondsOf(time);
  if (time !== '' && seconds === null) {
    errors.time = 'A time is written as hours:minutes, e.g. 1:30.';
  } else if (place.most_time !== null && seconds !== null && seconds > (secondsOf(place.most_time) ?? Infinity)) {
    errors.time = most(`a time of ${place.most_time}`);
  }
  if (partition !== '' && !PARTITION.test(partition)) {
    errors.partition = 'A partition has letters, digits, dots, underscores or hyphens.';
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
