// All clusters of the server, or of a JupyterHub, for who looks after others. No DOM.
import { isRecord, numberOrNull } from './parse';

const FAULTS = ['raised', 'lost', 'stopped', 'silent', 'unanswered', 'stalled', 'timed out', 'interrupted', 'cut off'] as const;
export type FaultKind = (typeof FAULTS)[number];
const STATES = ['starting', 'idle', 'running'] as const;
const PROBLEMS = ['missing', 'refused', 'silent', 'broken'] as const;
export type ProblemReason = (typeof PROBLEMS)[number];
const OUTCOMES = ['stopped', 'used', 'elsewhere', 'gone', 'failed'] as const;
export type StopOutcome = (typeof OUTCOMES)[number];

/** What jupyter_ddl/protocol/cluster_summaries.py says of a cluster. */
export interface ClusterSummary {
  readonly id: string;
  readonly user: string;
  /** Of JupyterHub; empty for the user's default one. */
  readonly server: string;
  readonly name: string;
  readonly world_size: number;
  readonly devices: readonly string[];
  readonly is_on_cores: boolean;
  readonly hosts: readonly string[];
  readonly job: string | null;
  readonly start_s: number;
  readonly state: (typeof STATES)[number];
  /** Null while it is used, or starts. */
  readonly idle_s: number | null;
  readonly fault_kind: FaultKind | null;
  readonly fault_at_s: number | null;
  readonly is_elsewhere: boolean;
  /** What its cells defined is saved before it is ended as idle, and loaded by a restart in its notebook. */
  readonly keeps_variables: boolean;
}

/** A server of a JupyterHub whose clusters are not known. */
export interface ServerProblem {
  readonly user: string;
  readonly server: string;
  readonly reason: ProblemReason;
}

export interface Overview {
  readonly clusters: readonly ClusterSummary[];
  readonly problems: readonly ServerProblem[];
  /** Whether there is a JupyterHub whose servers the user may look at. */
  readonly hasHub: boolean;
}

export const COLUMNS = ['user', 'name', 'ranks', 'devices', 'hosts', 'since', 'idle', 'fault'] as const;
export type Column = (typeof COLUMNS)[number];
export interface Order {
  readonly by: Column;
  readonly isDescending: boolean;
}

/** Return what a server answers; what is no cluster is left out. */
export function overviewOf(value: unknown): Overview {
  const { clusters, problems, has_jupyterhub: hasHub } = isRecord(value) ? value : {};
  return { clusters: listOf(clusters, summaryOf), problems: listOf(problems, problemOf), hasHub: hasHub === true };
}

/** Return what became of clusters, by their keys. */
export function outcomesOf(value: unknown): ReadonlyMap<string, StopOutcome> {
  const entries = Object.entries(isRecord(value) ? value : {});
  return new Map(entries.map(([key, said]) => [key, OUTCOMES.find((one) => one === said) ?? 'failed']));
}

/** Return what a cluster is known by among those of a JupyterHub. */
export function keyOf({ user, server, id }: Pick<ClusterSummary, 'user' | 'server' | 'id'>): string {
  return `${user}/${server} ${id}`;
}

/** Return those that can be stopped as idle by now. */
export function idleFor(clusters: readonly ClusterSummary[], seconds: number): ClusterSummary[] {
  return clusters.filter(({ idle_s: idle, is_elsewhere: elsewhere }) => !elsewhere && idle !== null && idle >= seconds);
}

/** Return them in an order; those that are alike in it by user and name. */
export function ordered(clusters: readonly ClusterSummary[], { by, isDescending }: Order): ClusterSummary[] {
  const sign = isDescending ? -1 : 1;
  return [...clusters].sort((one, other) => sign * compared(valueOf(one, by), valueOf(other, by)) || compared(keyOf(one), keyOf(other)));
}

function valueOf(cluster: ClusterSummary, by: Column): string | number {
  switch (by) {
    case 'ranks':
      return cluster.world_size;
    case 'since':
      return cluster.start_s;
    case 'idle':
      // One that runs has not been idle at all.
      return cluster.idle_s ?? -1;
    case 'fault':
      return cluster.fault_at_s ?? 0;
    case 'devices':
    case 'hosts':
      return cluster[by].join();
    default:
      return cluster[by];
  }
}

function compared(one: string | number, other: string | number): number {
  return typeof one === 'number' && typeof other === 'number' ? one - other : String(one).localeCompare(String(other), undefined, { numeric: true });
}

function listOf<T>(value: unknown, read: (found: Readonly<Record<string, unknown>>) => T | null): T[] {
  const items = Array.isArray(value) ? (value as unknown[]) : [];
  return items.map((item) => (isRecord(item) ? read(item) : null)).filter((item) => item !== null);
}

function summaryOf(found: Readonly<Record<string, unknown>>): ClusterSummary | null {
  const { id, user, name, world_size: size, start_s: start } = found;
  const state = STATES.find((one) => one === found['state']);
  if (typeof id !== 'string' || typeof user !== 'string' || typeof name !== 'string' || typeof size !== 'number' || typeof start !== 'number' || state === undefined) {
    return null;
  }
  return {
    ...{ id, user, name, state, world_size: size, start_s: start },
    server: typeof found['server'] === 'string' ? found['server'] : '',
    devices: textsOf(found['devices']),
    is_on_cores: found['is_on_cores'] === true,
    hosts: textsOf(found['hosts']),
    job: typeof found['job'] === 'string' ? found['job'] : null,
    idle_s: numberOrNull(found['idle_s']),
    fault_kind: FAULTS.find((one) => one === found['fault_kind']) ?? null,
    fault_at_s: numberOrNull(found['fault_at_s']),
    is_elsewhere: found['is_elsewhere'] === true,
    keeps_variables: found['keeps_variables'] === true,
  };
}

function problemOf({ user, server, reason }: Readonly<Record<string, unknown>>): ServerProblem | null {
  const known = PROBLEMS.find((one) => one === reason);
  return typeof user === 'string' && known !== undefined ? { user, server: typeof server === 'string' ? server : '', reason: known } : null;
}

function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : [];
}
