// The line of a cell that has it run on ranks. No DOM.

// Lines without text above it are no part of a cell for IPython, nor is its indentation; behind its name comes a space.
// Source: ipython 9.18, IPython/core/inputtransformer2.py, leading_empty_lines, leading_indent and cell_magic.
const MAGIC = /^((?:[^\S\n]*\n)*)([^\S\n]*%%distributed(?: ([^\n]*)|[^\S\n]*))(?=\n|$)/;
const RANKS = /(?:^|\s)(?:-r|--ranks)(?:[ =]+)(\S+)/;

export interface DistributedLine {
  /** What stands behind the magic. */
  readonly options: string;
  /** The ranks that it names; null for all. */
  readonly ranks: string | null;
  /** Where its line begins in the cell. */
  readonly start: number;
  /** Where its line ends, without the line's end. */
  readonly end: number;
}

/** A change of a cell's text that leaves the rest of it, and the cursor there, where it is. */
export interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** Return what the magic of a cell says; null for a cell that runs in the kernel. */
export function readMagic(source: string): DistributedLine | null {
  const match = MAGIC.exec(source);
  if (match === null) {
    return null;
  }
  const options = (match[3] ?? '').trim();
  const start = match[1]!.length;
  return { options, ranks: RANKS.exec(options)?.[1] ?? null, start, end: start + match[2]!.length };
}

/** Return what gives a cell the magic, or, where it has it, takes it away. */
export function toggleMagic(source: string): Edit {
  const magic = readMagic(source);
  if (magic === null) {
    return { start: 0, end: 0, text: '%%distributed\n' };
  }
  return { start: magic.start, end: Math.min(source.length, magic.end + 1), text: '' };
}

/** Return what gives a distributed cell other ranks, and leaves all else in the magic's line as it is; null for nothing. */
export function withRanks(source: string, ranks: string): Edit | null {
  const magic = readMagic(source);
  if (magic === null) {
    return null;
  }
  const others = magic.options.replace(RANKS, '').trim();
  const text = ['%%distributed', ranks === '' ? '' : `-r ${ranks}`, others].filter((part) => part !== '').join(' ');
  const { start, end } = magic;
  return source.slice(start, end) === text ? null : { start, end, text };
}

/** Return the code below the magic, and where a place in the cell is in it; null where it stands above that. */
export function belowMagic(source: string, cursor: number): { code: string; cursor: number; skipped: number } | null {
  const end = readMagic(source)?.end ?? source.length;
  if (end >= source.length || cursor <= end) {
    return null;
  }
  return { code: source.slice(end + 1), cursor: cursor - end - 1, skipped: end + 1 };
}
