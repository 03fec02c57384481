// When ranks are ended because no cell uses them. No DOM.
import { duration, timeLeft } from './number_texts';

/** In the last minutes it is counted by seconds, and the ranks can be kept. */
const SOON_S = 300;

export interface IdleEnd {
  /** In short: "25 min", "4 min 12 s". */
  readonly text: string;
  readonly isSoon: boolean;
}

/**
 * Return how long idle ranks stay; null where they are used, or are not ended.
 * @param endsAtS when they are ended, in seconds since the epoch
 * @param nowS the time now
 */
export function idleEnd(endsAtS: number | null | undefined, nowS: number): IdleEnd | null {
  if (endsAtS == null) {
    return null;
  }
  const leftS = Math.max(0, Math.ceil(endsAtS - nowS));
  const isSoon = leftS <= SOON_S;
  return { text: isSoon ? duration(leftS) : timeLeft(leftS), isSoon };
}
