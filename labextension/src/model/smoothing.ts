// Exponential smoothing, as experiment trackers have it. No DOM.
import type { Values } from './compare';

/** Return the exponentially weighted means of what came before and of the value itself; where there is none, none.
 *
 * The first values are not drawn towards zero: each sum is divided by the sum of its weights. Source: D. P. Kingma and J. Ba,
 * "Adam", section 3, arXiv:1412.6980.
 *
 * @param weight of what came before, from 0 (as it is) to below 1.
 */
export function smoothed(values: Values, weight: number): Values {
  if (!(weight > 0)) {
    return values;
  }
  let sum = 0;
  let weights = 0;
  return values.map((value) => {
    if (value === null || !Number.isFinite(value)) {
      return value;
    }
    sum = weight * sum + (1 - weight) * value;
    weights = weight * weights + (1 - weight);
    return sum / weights;
  });
}
