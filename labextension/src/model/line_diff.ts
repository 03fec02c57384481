// Which lines of two texts are the same. No DOM.

export interface DiffLine {
  /** The line's number from 1; null where the text has none here. */
  readonly before: number | null;
  readonly after: number | null;
  readonly text: string;
}

/** The most differences that are looked for: beyond it two texts have nothing to do with each other: all between is replaced. */
const MAX_DIFFERENCES = 1000;

/** Return the lines of both texts in order: those of both, those of the first only, and those of the second only.
 *
 * Source: E. W. Myers, "An O(ND) difference algorithm and its variations", Algorithmica 1 (1986).
 */
export function lineDiff(first: string, second: string): DiffLine[] {
  const [a, b] = [linesOf(first), linesOf(second)];
  const found: DiffLine[] = [];
  let [x, y] = [a.length, b.length];
  const step = (before: boolean, after: boolean): void => {
    found.push({ before: before ? x : null, after: after ? y : null, text: before ? a[x - 1]! : b[y - 1]! });
    x -= before ? 1 : 0;
    y -= after ? 1 : 0;
  };
  const reached = furthest(a, b);
  if (reached === null) {
    return [...a.map((text, at) => ({ before: at + 1, after: null, text })), ...b.map((text, at) => ({ before: null, after: at + 1, text }))];
  }
  // Back from the end, by what each number of differences had reached.
  for (let differences = reached.length - 1; differences > 0; differences--) {
    const ends = reached[differences - 1]!;
    const diagonal = x - y;
    const comesDown = isDown(ends, diagonal, differences);
    const startX = ends.get(comesDown ? diagonal + 1 : diagonal - 1)!;
    const startY = startX - (comesDown ? diagonal + 1 : diagonal - 1);
    while (x > startX && y > startY) {
      step(true, true);
    }
    step(!comesDown, comesDown);
  }
  while (x > 0 && y > 0) {
    step(true, true);
  }
  return found.reverse();
}

/** Return, for each number of differences until the end is reached, how far each diagonal goes; null beyond the most. */
function furthest(a: readonly string[], b: readonly string[]): Map<number, number>[] | null {
  const reached: Map<number, number>[] = [];
  for (let differences = 0; differences <= Math.min(MAX_DIFFERENCES, a.length + b.length); differences++) {
    const ends = new Map<number, number>();
    const before = reached.at(-1);
    for (let diagonal = -differences; diagonal <= differences; diagonal += 2) {
      let x = 0;
      if (before !== undefined) {
        x = isDown(before, diagonal, differences) ? before.get(diagonal + 1)! : before.get(diagonal - 1)! + 1;
      }
      while (x < a.length && x - diagonal < b.length && a[x] === b[x - diagonal]) {
        x++;
      }
      ends.set(diagonal, x);
      if (x >= a.length && x - diagonal >= b.length) {
        return [...reached, ends];
      }
    }
    reached.push(ends);
  }
  return null;
}

/** Whether the best way to a diagonal is by a line of the second text, rather than by one of the first. */
function isDown(before: ReadonlyMap<number, number>, diagonal: number, differences: number): boolean {
  const [left, right] = [before.get(diagonal - 1) ?? -1, before.get(diagonal + 1) ?? -1];
  return diagonal === -differences || (diagonal !== differences && left < right);
}

function linesOf(text: string): string[] {
  const lines = text.split(/\r\n|\n|\r/);
  return lines.at(-1) === '' ? lines.slice(0, -1) : lines;
}

/** Lines that differ with those around them, and how many of the same are left out before; `lines` is empty at the end. */
export interface Hunk {
  readonly skipped: number;
  readonly lines: readonly DiffLine[];
}

/** Return what differs, with `around` lines of the same before and after. */
export function hunks(lines: readonly DiffLine[], around: number): Hunk[] {
  const isNear = lines.map(() => false);
  for (const [at, { before, after }] of lines.entries()) {
    if (before === null || after === null) {
      isNear.fill(true, Math.max(0, at - around), at + around + 1);
    }
  }
  const found: { skipped: number; lines: DiffLine[] }[] = [];
  let skipped = 0;
  for (const [at, line] of lines.entries()) {
    if (!isNear[at]) {
      skipped++;
      continue;
    }
    if (skipped > 0 || found.length === 0) {
      found.push({ skipped, lines: [] });
      skipped = 0;
    }
    found.at(-1)!.lines.push(line);
  }
  return skipped > 0 ? [...found, { skipped, lines: [] }] : found;
}

/** A row of two columns: a line of each text, or of one alone. */
export interface SideRow {
  readonly left: DiffLine | null;
  readonly right: DiffLine | null;
}

/** Return lines side by side: those that replace others are beside them. */
export function sideBySide(lines: readonly DiffLine[]): SideRow[] {
  const rows: SideRow[] = [];
  let gone: DiffLine[] = [];
  let came: DiffLine[] = [];
  const flush = (): void => {
    for (let at = 0; at < Math.max(gone.length, came.length); at++) {
      rows.push({ left: gone[at] ?? null, right: came[at] ?? null });
    }
    gone = [];
    came = [];
  };
  for (const line of lines) {
    if (line.after === null) {
      gone.push(line);
    } else if (line.before === null) {
      came.push(line);
    } else {
      flush();
      rows.push({ left: line, right: line });
    }
  }
  flush();
  return rows;
}
