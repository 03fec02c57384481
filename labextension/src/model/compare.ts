// Two runs' curves on one axis. No DOM.

export type Values = readonly (number | null)[];

export interface Curve {
  readonly places: ArrayLike<number>;
  readonly values: Values;
}

/** Return all places of both curves in order, and each curve's values at them; null where it has none. */
export function onOneAxis(first: Curve, second: Curve): { places: number[]; first: Values; second: Values } {
  const places = [...new Set([...Array.from(first.places), ...Array.from(second.places)])].sort((a, b) => a - b);
  const spread = ({ places: own, values }: Curve): Values => {
    const known = new Map(Array.from(own).map((place, at) => [place, values[at] ?? null]));
    return places.map((place) => known.get(place) ?? null);
  };
  return { places, first: spread(first), second: spread(second) };
}

/** Return how much more the second is than the first, as a share of the first; null where that says nothing. */
export function change(first: number | null, second: number | null): number | null {
  return first === null || second === null || first === 0 || !Number.isFinite(second / first) ? null : second / first - 1;
}
