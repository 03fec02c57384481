// The line of a cell that has it run on ranks, or here where the whole notebook does. No DOM.

// Lines without text above it are no part of a cell for IPython, nor is its indentation; behind its name comes a space.
// Source: ipython 9.18, IPython/core/inputtransformer2.py, leading_empty_lines, leading_indent and cell_magic.
const MAGIC = /^((?:[^\S\n]*\n)*)([^\S\n]*%%distributed(?: ([^\n]*)|[^\S\n]*))(?=\n|$)/;
const LOCAL = /^((?:[^\S\n]*\n)*)([^\S\n]*%%local[^\S\n]*)(?=\n|$)/;
// What makes a cell one with a magic: any, or a command of the shell, at the beginning of a line, or a question at the end
// of its only line. As jupyter_ddl/kernel/magics/whole_notebook.py has it: whole_notebook.fixture.json holds both to it.
const AT_A_LINE = /^(?:%{1,2}[A-Za-z_]|!)/m;
const QUESTION = /^[^\n]*\?\s*$/;
// Below a comment it is none for IPython, which then knows no such magic.
const BELOW_COMMENTS = /^((?:[^\S\n]*(?:#[^\n]*)?\n)+)([^\S\n]*%%distributed(?:[^\S\n][^\n]*)?)(?:\n|$)/;
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

/** Whether a cell goes to the ranks though it does not say so, where the whole notebook does. */
export function goesByItself(source: string): boolean {
  const code = source.trimStart();
  return code !== '' && !AT_A_LINE.test(code) && !QUESTION.test(code);
}

/** @param isWhole whether the whole notebook runs on ranks. */
export function runsOnRanks(source: string, isWhole: boolean): boolean {
  return readMagic(source) !== null || (isWhole && goesByItself(source));
}

/** Return what has a cell run on ranks, or, where it does, in the kernel. */
export function toggleMagic(source: string, isWhole = false): Edit {
  const magic = readMagic(source);
  const local = LOCAL.exec(source);
  if (magic !== null) {
    return isWhole ? { start: magic.start, end: magic.end, text: '%%local' } : withoutLine(source, magic.start, magic.end);
  }
  if (local !== null) {
    const start = local[1]!.length;
    const end = local[0].length;
    return isWhole ? withoutLine(source, start, end) : { start, end, text: '%%distributed' };
  }
  const below = BELOW_COMMENTS.exec(source);
  if (below !== null) {
    return { start: 0, end: below[0].length, text: `${below[2]!.trim()}\n${below[1]}` };
  }
  return { start: 0, end: 0, text: isWhole && goesByItself(source) ? '%%local\n' : '%%distributed\n' };
}

function withoutLine(source: string, start: number, end: number): Edit {
  return { start, end: Math.min(source.length, end + 1), text: '' };
}

/** Return what gives a cell on ranks other ones, and leaves all else in the magic's line as it is; null for nothing. */
export function withRanks(source: string, ranks: string, isWhole = false): Edit | null {
  const magic = readMagic(source);
  if (magic === null) {
    return ranks !== '' && runsOnRanks(source, isWhole) ? { start: 0, end: 0, text: `%%distributed -r ${ranks}\n` } : null;
  }
  const others = magic.options.replace(RANKS, '').trim();
  const text = ['%%distributed', ranks === '' ? '' : `-r ${ranks}`, others].filter((part) => part !== '').join(' ');
  const { start, end } = magic;
  return source.slice(start, end) === text ? null : { start, end, text };
}

/** Return the code that runs on ranks, and where a place in the cell is in it; null where it stands above that. */
export function belowMagic(source: string, cursor: number, isWhole = false): { code: string; cursor: number; skipped: number } | null {
  if (isWhole && goesByItself(source)) {
    return { code: source, cursor, skipped: 0 };
  }
  const end = readMagic(source)?.end ?? source.length;
  if (end >= source.length || cursor <= end) {
    return null;
  }
  return { code: source.slice(end + 1), cursor: cursor - end - 1, skipped: end + 1 };
}

/** Return code as it runs on one rank, whatever ranks it names itself; options of its own magic stay. */
export function onRank(source: string, rank: number): string {
  const local = LOCAL.exec(source);
  const code = local === null ? source : applied(source, withoutLine(source, local[1]!.length, local[0].length));
  if (code.trim() === '') {
    return '';
  }
  const edit = readMagic(code) === null ? { start: 0, end: 0, text: `%%distributed -r ${rank}\n` } : withRanks(code, String(rank));
  return edit === null ? code : applied(code, edit);
}

function applied(source: string, { start, end, text }: Edit): string {
  return source.slice(0, start) + text + source.slice(end);
}
