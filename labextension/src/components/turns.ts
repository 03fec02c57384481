// When each part of the dashboard is drawn. Updates come twice a second and samples once: what is drawn at each update is
// shared out, so that none costs much more than the others.

/** This many updates are one round. */
export const TURNS = 8;
/** From this many ranks on, a strip of cells is above the table. */
export const MANY_RANKS = 17;
/** More lines than this from one turn to the next pass too fast to be read. */
const READABLE_LINES = 16;

/** Of each part its turns in a round. */
export interface Turns {
  readonly header: readonly number[];
  readonly strip: readonly number[];
  readonly table: readonly number[];
  readonly log: readonly number[];
  /** Rates, curves, what a step is spent on, the device. */
  readonly charts: readonly (readonly number[])[];
}

const OF_FEW: Turns = {
  header: [0, 2, 4, 6],
  strip: [],
  table: [2, 6],
  log: [1, 5],
  charts: [[0, 4], [1, 5], [3], [7]],
};

// With many ranks the table costs most, and has its own turn: the strip shows their states. No two charts, but for the curves
// of the metrics, are drawn at one update.
const OF_MANY: Turns = {
  header: [1, 3, 5, 7],
  strip: [3, 7],
  table: [6],
  log: [1, 5],
  charts: [[0, 4], [2], [3], [7]],
};

/** Return the turns of a run.
 *
 * @param ranks how many it has.
 * @param newLines how many have come since the log was drawn.
 */
export function turnsOf(ranks: number, newLines: number): Turns {
  const turns = ranks < MANY_RANKS ? OF_FEW : OF_MANY;
  return newLines <= READABLE_LINES ? { ...turns, log: [1, 3, 5, 7] } : turns;
}
