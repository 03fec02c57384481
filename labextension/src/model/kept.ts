// The clusters that run with no kernel: what `--keep` is for. No DOM.
import type { KernelState } from './hub_messages';

export interface KeptCluster {
  readonly name: string;
  readonly world_size: number;
  /** What its ranks compute on, as it was asked for; empty for the cores. */
  readonly devices: readonly string[];
  readonly start_s: number;
}

/** Return those that no kernel of this server has attached to. */
export function withoutKernel(kept: readonly KeptCluster[], kernels: readonly KernelState[]): KeptCluster[] {
  const used = new Set(kernels.map(({ cluster }) => cluster?.name));
  return kept.filter(({ name }) => !used.has(name));
}

/** Return the line that gives a notebook their ranks. */
export function attachLine({ name }: Pick<KeptCluster, 'name'>): string {
  return `%ddl attach ${name}`;
}
