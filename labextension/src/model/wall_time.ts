// How long the batch job of a kernel's ranks has. No DOM.
import { timeLeft as leftText } from './number_texts';

const SOON_S = 600;

export interface TimeLeft {
  /** In short: "43 min". */
  readonly text: string;
  /** Whether it is time to save what the ranks hold. */
  readonly isSoon: boolean;
}

/**
 * Return how long a job has; null where there is none.
 * @param endsAtS when it is over, in seconds since the epoch
 * @param nowS the time now
 */
export function timeLeft(endsAtS: number | null | undefined, nowS: number): TimeLeft | null {
  if (endsAtS == null) {
    return null;
  }
  const leftS = Math.max(0, endsAtS - nowS);
  return { text: leftText(leftS), isSoon: leftS <= SOON_S };
}
