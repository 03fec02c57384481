// The batch jobs that no notebook uses: their waits were interrupted, or they are kept. No DOM.
import type { KernelState } from './hub_messages';

export interface BatchJob {
  /** As the scheduler names it. */
  readonly job: string;
  /** Its name in messages: "Slurm job 12". */
  readonly title: string;
  /** The cluster's. */
  readonly name: string;
  readonly world_size: number;
  readonly state: 'waiting' | 'running' | 'ending';
  /** Where it is, as a sentence. */
  readonly text: string;
  readonly ends_at_s: number | null;
}

/**
 * Return those that no kernel of this server waits for, or uses.
 * @param kept the names of the clusters that are shown as kept
 */
export function jobsWithoutKernel(jobs: readonly BatchJob[], kernels: readonly KernelState[], kept: readonly string[]): BatchJob[] {
  const used = new Set(kernels.map(({ cluster }) => cluster?.job));
  return jobs.filter(({ title, name }) => !used.has(title) && !kept.includes(name));
}

/** Return the line that gives a notebook its ranks, and waits for them. */
export function attachJobLine({ job }: BatchJob): string {
  return `%ddl attach ${job}`;
}
