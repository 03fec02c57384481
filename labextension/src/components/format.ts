// How numbers and states look: numbers as model/number_texts.ts has them, and a sign and a word for each state.
import type { RankState } from '../model/rank';

export * from '../model/number_texts';

export interface StateLook {
  readonly sign: string;
  readonly word: string;
}

/** Each state has a sign, a word and a colour (by class): each of them is enough to recognise it. */
export const LOOKS: Readonly<Record<RankState, StateLook>> = {
  waiting: { sign: '○', word: 'waiting' },
  running: { sign: '◔', word: 'running' },
  training: { sign: '●', word: 'training' },
  straggler: { sign: '▲', word: 'straggler' },
  finished: { sign: '✓', word: 'finished' },
  failed: { sign: '✕', word: 'failed' },
  released: { sign: '◇', word: 'released' },
  lost: { sign: '⌀', word: 'lost' },
};
