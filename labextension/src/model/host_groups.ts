// Ranks by host: a heading for each, below it the ranks unless it is folded. No DOM.
import { ranksText, type Words } from './words';

/** A host's heading. */
export interface HostHeading<T> {
  readonly host: string;
  readonly ranks: readonly T[];
  readonly isFolded: boolean;
}

export type HostEntry<T> = HostHeading<T> | T;

export function isHeading<T extends object>(entry: HostEntry<T>): entry is HostHeading<T> {
  return 'isFolded' in entry;
}

/** Return ranks as they are listed: by host, in the order of its first rank, where there are several; else as they came. */
export function byHost<T extends { readonly host: string | null }>(ranks: readonly T[], folded: ReadonlySet<string>): HostEntry<T>[] {
  const hosts = new Map<string, T[]>();
  for (const rank of ranks) {
    const host = rank.host ?? '';
    const found = hosts.get(host);
    if (found === undefined) {
      hosts.set(host, [rank]);
    } else {
      found.push(rank);
    }
  }
  if (hosts.size < 2) {
    return [...ranks];
  }
  return [...hosts].flatMap(([host, here]): HostEntry<T>[] => {
    const isFolded = folded.has(host);
    return [{ host, ranks: here, isFolded }, ...(isFolded ? [] : here)];
  });
}

/** Return what a host's heading says of its ranks: how many, what they do together, its network, and faults. */
export function headingParts(ranks: number, samplesPerS: string, network: string, faults: number, trans: Words): string[] {
  const faultText = faults === 0 ? '' : trans._n('%1 fault', '%1 faults', faults);
  return [ranksText(ranks, trans), samplesPerS, network, faultText].filter((text) => text !== '');
}
