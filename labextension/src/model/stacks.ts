// Where ranks are: those at the same place together. No DOM.
import type { RankStacks } from './events';
import { isRecord } from './parse';

export interface Frame {
  readonly file: string;
  readonly line: number;
  readonly function: string;
  readonly text: string;
  readonly isCell: boolean;
  /** Whether it is of the cell that runs, and not of one that ran before and defined the function. */
  readonly isRunning: boolean;
}

export interface Place {
  readonly ranks: readonly number[];
  readonly hosts: readonly string[];
  readonly note: string;
  readonly frames: readonly Frame[];
  /** Whether the ranks wait for a cell. */
  readonly isIdle: boolean;
}

// ipykernel names a cell's code by a file that is not there.
const CELL = /[/\\]ipykernel_\d+[/\\]\d+\.py$/;
// Of a thread that is in no cell, the last calls.
const OUTSIDE = 6;

/** Return each place with its ranks, those of the lowest rank first. */
export function groupStacks(stacks: readonly RankStacks[]): Place[] {
  const places = new Map<string, { ranks: number[]; hosts: Set<string>; note: string; frames: readonly Frame[]; isIdle: boolean }>();
  for (const rank of [...stacks].sort((a, b) => a.rank - b.rank)) {
    const all = framesOf(rank);
    const from = all.findIndex((frame) => frame.isCell);
    const frames = from >= 0 ? all.slice(from) : all.slice(-OUTSIDE);
    const last = all.at(-1);
    const isIdle = rank.threads.length > 0 && from < 0 && (last === undefined || last.function === 'select');
    const key = isIdle ? 'idle' : JSON.stringify(frames.length > 0 ? frames : [rank.note]);
    const place = places.get(key) ?? { ranks: [], hosts: new Set(), note: rank.note, frames: isIdle ? [] : frames, isIdle };
    place.ranks.push(rank.rank);
    place.hosts.add(rank.host);
    places.set(key, place);
  }
  return [...places.values()].map((place) => ({ ...place, hosts: [...place.hosts] }));
}

/** Return the frames of a rank's main thread, which comes first. */
function framesOf(rank: RankStacks): Frame[] {
  const found = rank.threads[0]?.['frames'];
  if (!Array.isArray(found)) {
    return [];
  }
  const frames = found.filter((frame: unknown): frame is unknown[] => Array.isArray(frame));
  const running = frames.find(([file, , name]) => name === '<module>' && CELL.test(String(file)))?.[0];
  return frames.map(([file, line, name, text]): Frame => {
    const path = textOf(file);
    return {
      file: shortened(path),
      line: typeof line === 'number' ? line : 0,
      function: textOf(name),
      text: textOf(text),
      isCell: CELL.test(path),
      isRunning: file === running,
    };
  });
}

function shortened(path: string): string {
  return path.replace(/^.*\/(?:(?:site|dist)-packages|lib\/python3\.\d+)\//, '');
}

/** Return the stacks in a control's answer; what is none is left out. */
export function stacksOf(result: unknown): RankStacks[] {
  const ranks = isRecord(result) ? result['ranks'] : null;
  return Array.isArray(ranks) ? ranks.filter(isStacks) : [];
}

function isStacks(value: unknown): value is RankStacks {
  return isRecord(value) && typeof value['rank'] === 'number' && typeof value['host'] === 'string' && Array.isArray(value['threads']);
}

/** Return ranks as they are written: 0,2-3. */
export function compactRanks(ranks: readonly number[]): string {
  const parts: string[] = [];
  let first: number | null = null;
  let last: number | null = null;
  for (const rank of [...new Set(ranks)].sort((a, b) => a - b)) {
    if (last !== null && rank === last + 1) {
      parts[parts.length - 1] = `${first}-${rank}`;
    } else {
      first = rank;
      parts.push(String(rank));
    }
    last = rank;
  }
  return parts.join(', ');
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
