// The first line of a cell that runs on ranks. No DOM.

const MAGIC = /^\s*%%distributed\b(.*)$/;
const RANKS = /(?:^|\s)(?:-r|--ranks)(?:[ =]+)(\S+)/;

export interface DistributedLine {
  /** What stands behind the magic. */
  readonly options: string;
  /** The ranks that it names; null for all. */
  readonly ranks: string | null;
}

/** Return what the magic of a cell says; null for a cell that runs in the kernel. */
export function readMagic(source: string): DistributedLine | null {
  const [first = ''] = source.split('\n', 1);
  const match = MAGIC.exec(first);
  if (match === null) {
    return null;
  }
  const options = match[1]!.trim();
  return { options, ranks: RANKS.exec(options)?.[1] ?? null };
}

/** Return a cell with the magic, or, where it has it, without. */
export function toggleMagic(source: string, ranks: string): string {
  if (readMagic(source) !== null) {
    const end = source.indexOf('\n');
    return end < 0 ? '' : source.slice(end + 1);
  }
  return `%%distributed${ranks === '' ? '' : ` -r ${ranks}`}\n${source}`;
}

/** Return a distributed cell with other ranks, and all else in its first line as it is. */
export function withRanks(source: string, ranks: string): string {
  const magic = readMagic(source);
  if (magic === null) {
    return source;
  }
  const others = magic.options.replace(RANKS, '').trim();
  const end = source.indexOf('\n');
  const line = ['%%distributed', ranks === '' ? '' : `-r ${ranks}`, others].filter((part) => part !== '').join(' ');
  return line + (end < 0 ? '' : source.slice(end));
}

/** Return the code below the magic, and where a place in the cell is in it; null where it stands in the first line. */
export function belowMagic(source: string, cursor: number): { code: string; cursor: number; skipped: number } | null {
  const end = source.indexOf('\n');
  if (end < 0 || cursor <= end) {
    return null;
  }
  return { code: source.slice(end + 1), cursor: cursor - end - 1, skipped: end + 1 };
}
