// Several curves on one axis. No DOM.

export type Values = readonly (number | null)[];

export interface Curve {
  readonly places: ArrayLike<number>;
  readonly values: Values;
}

/** Return all places of the curves in order, and each curve's values at them; null where it has none. */
export function onOneAxis(curves: readonly Curve[]): { places: number[]; values: Values[] } {
  const places = Array.from(new Set(curves.flatMap(({ places: own }) => Array.from(own)))).sort((a, b) => a - b);
  const index = new Map(places.map((place, at) => [place, at]));
  const values = curves.map(({ places: own, values: of }) => {
    const spread: (number | null)[] = new Array<number | null>(places.length).fill(null);
    for (let at = 0; at < own.length; at++) {
      spread[index.get(own[at]!)!] = of[at] ?? null;
    }
    return spread;
  });
  return { places, values };
}

/** Return how much more a figure is than the first, as a share of the first; null where that says nothing. */
export function change(first: number | null, other: number | null): number | null {
  return first === null || other === null || first === 0 || !Number.isFinite(other / first) ? null : other / first - 1;
}

/** Return a curve's value at the place nearest to `x`; null where `x` is beyond its ends, by more than half a gap. */
export function valueAt({ places, values }: Curve, x: number): number | null {
  const { length } = places;
  if (length === 0) {
    return null;
  }
  const margin = length > 1 ? (places[length - 1]! - places[0]!) / (length - 1) / 2 : 0.5;
  if (x < places[0]! - margin || x > places[length - 1]! + margin) {
    return null;
  }
  let [low, high] = [0, length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    [low, high] = places[middle]! <= x ? [middle, high] : [low, middle];
  }
  const nearest = Math.abs(places[high]! - x) < Math.abs(x - places[low]!) ? high : low;
  return values[nearest] ?? null;
}
