// A rank of a run, from its events. No DOM.
import type { StragglerMarked } from './events';
import type { Figures } from './figures';
import { SampleMeans } from './means';

export type RankState = 'waiting' | 'running' | 'training' | 'straggler' | 'finished' | 'failed' | 'released' | 'lost';

/** Worst first, as in a summary. */
export const STATES: readonly RankState[] = [
  'lost',
  'failed',
  'released',
  'straggler',
  'waiting',
  'running',
  'training',
  'finished',
];

export const ENDED: ReadonlySet<RankState> = new Set<RankState>(['finished', 'failed', 'released', 'lost']);

export interface Rank {
  readonly rank: number;
  state: RankState;
  /** Its newest sample; null before the first. */
  latest: Figures | null;
  /** Its newest sample of which training steps were measured, as a rule `latest`; it stays when the training is over. */
  trained: Figures | null;
  /** What its training steps came to. */
  readonly means: SampleMeans;
  straggler: StragglerMarked | null;
  host: string | null;
  /** Why it failed or is gone; empty otherwise. */
  problem: string;
}

/** Return a rank of which nothing but its host may be known. */
export function waitingRank(rank: number, host: string | null): Rank {
  return {
    rank,
    state: 'waiting',
    latest: null,
    trained: null,
    means: new SampleMeans(),
    straggler: null,
    host,
    problem: '',
  };
}
