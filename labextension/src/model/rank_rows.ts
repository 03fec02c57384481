// A panel's rows of a cluster's ranks: from the kernel, and, while a run is active, from the run. No DOM.
import type { ClusterState, RankState as ClusterRank } from './hub_messages';
import { deviceText, hostText } from './links';
import { number } from './number_texts';
import { partName } from './part_name';
import type { RankState } from './rank';
import type { RunModel } from './run';
import type { Words } from './words';

/** A rank's state in a run, or between runs: ready, silent for a while, or ended with a lost one. */
export type Standing = RankState | 'ready' | 'silent' | 'held' | 'ended';

/** What counts as a fault of a host's. */
export const TROUBLED: ReadonlySet<Standing> = new Set<Standing>(['failed', 'lost', 'silent']);

export interface RankRow {
  readonly rank: number;
  readonly standing: Standing;
  readonly host: string;
  readonly device: string;
  readonly threads: number;
  readonly pid: number;
  readonly samplesPerS: number | null;
  readonly gpuPct: number | null;
  readonly cpuPct: number | null;
  readonly memoryBytes: number | null;
  readonly memoryTotalBytes: number | null;
  /** What its device reports besides; empty where it reports nothing. */
  readonly deviceMore: string;
  /** What its host's network carries, on the first rank there; empty on the others. */
  readonly network: string;
  /** How much slower it is than the others, as text; empty where it is no straggler. */
  readonly problem: string;
  /** What part of a step a straggler is slower in; empty where it is none. */
  readonly slowIn: string;
}

export function rankRows(cluster: ClusterState, run: RunModel | null, trans: Words): RankRow[] {
  return cluster.ranks.map((rank) => {
    const ofRun = run?.rankOrUndefined(rank.rank);
    const standing = standingOf(rank, run, ofRun?.state);
    const sample = run?.isOver === false ? (ofRun?.latest ?? null) : null;
    const straggler = ofRun?.straggler ?? null;
    return {
      rank: rank.rank,
      standing,
      host: rank.host,
      device: rank.device,
      threads: rank.threads,
      pid: rank.pid,
      samplesPerS: run?.isOver === false ? (ofRun?.trained?.samples_per_s ?? null) : null,
      gpuPct: sample?.gpu_pct ?? null,
      cpuPct: sample?.cpu_pct ?? null,
      memoryBytes: sample?.gpu_memory_used_bytes ?? sample?.rss_bytes ?? null,
      memoryTotalBytes: sample?.gpu_memory_total_bytes ?? null,
      deviceMore: deviceText(sample),
      network: hostText(sample, trans),
      problem: standing === 'straggler' && straggler !== null ? `×${number(straggler.ratio)}` : '',
      slowIn: straggler === null ? '' : trans.__('slower in %1', partName(straggler.spends_on, trans)),
    };
  });
}

function standingOf(rank: ClusterRank, run: RunModel | null, ofRun: RankState | undefined): Standing {
  if (rank.state === 'lost' || rank.state === 'ended' || rank.state === 'silent' || rank.state === 'held') {
    return rank.state;
  }
  if (rank.state === 'running' || (run !== null && !run.isOver)) {
    return ofRun === undefined || ofRun === 'waiting' ? (rank.state === 'running' ? 'running' : 'ready') : ofRun;
  }
  return 'ready';
}
