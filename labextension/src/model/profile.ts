// A profile of ranks, merged: a tree of calls, and where each stands in a flame graph. No DOM.
import { isRecord } from './parse';

/** A cell's line; a library's; or the samples that could not be taken. */
export type CallKind = 'own' | 'library' | 'missed';

export interface Call {
  /** The caller's number; -1 for none. */
  readonly parent: number;
  readonly where: string;
  /** The line, where it is a cell's. */
  readonly text: string;
  readonly kind: CallKind;
  /** The mean of the ranks' shares of the time, with what it calls, and without. */
  readonly share: number;
  readonly own: number;
  readonly samples: number;
  /** Ranks with their shares: all of few; of many the lowest, the highest, and those that differ. */
  readonly ranks: readonly (readonly [number, number])[];
  /** Which ranks differ from the others there, as the kernel says it; empty where none does. */
  readonly differs: string;
}

export interface Profile {
  readonly ranks: readonly number[];
  readonly ticks: number;
  readonly samples: number;
  /** A caller comes before what it calls. */
  readonly calls: readonly Call[];
  readonly differences: readonly { readonly call: number; readonly text: string }[];
  readonly notes: readonly string[];
}

/** What stands for all calls. */
export const ALL = -1;

/** A call's place in the graph, as parts of its width. */
export interface Box {
  readonly call: number;
  readonly depth: number;
  readonly left: number;
  readonly width: number;
}

/** Return the profile in a control's answer.
 *
 * @throws TypeError where there is none: the kernel's version is another.
 */
export function profileOf(result: unknown): Profile {
  const { ranks, ticks, samples, calls, differences, notes } = isRecord(result) ? result : {};
  const isNumber = (value: unknown): value is number => typeof value === 'number';
  if (!Array.isArray(ranks) || !Array.isArray(calls) || !Array.isArray(differences) || !Array.isArray(notes) || !isNumber(ticks) || !isNumber(samples)) {
    throw new TypeError('The kernel must answer with a profile. Received: something else. Restart it: its jupyter_ddl is of another version.');
  }
  const read = calls.filter(isCall);
  const known = (call: unknown): boolean => isNumber(call) && call in read;
  return {
    ranks: ranks.filter(isNumber),
    ticks,
    samples,
    calls: read.map((call, at) => (call.parent < at ? call : { ...call, parent: ALL })),
    differences: differences.filter((one): one is { call: number; text: string } => isRecord(one) && known(one['call']) && typeof one['text'] === 'string'),
    notes: notes.filter((note): note is string => typeof note === 'string'),
  };
}

function isCall(value: unknown): value is Call {
  const has = (kind: string, ...names: readonly string[]): boolean => isRecord(value) && names.every((name) => typeof value[name] === kind);
  return has('number', 'parent', 'share', 'own', 'samples') && has('string', 'where', 'text', 'kind', 'differs') && isRecord(value) && Array.isArray(value['ranks']);
}

/** Return where calls stand when one fills the width: its callers above it, what it calls below, the longest first.
 *
 * @param least a call that is narrower is left out, with what it calls.
 */
export function flameBoxes({ calls }: Profile, zoomed: number, least: number): Box[] {
  const called = new Map<number, number[]>();
  for (const [number, { parent }] of calls.entries()) {
    called.set(parent, [...(called.get(parent) ?? []), number]);
  }
  const above = callersOf(calls, zoomed);
  const boxes: Box[] = above.map((call, depth) => ({ call, depth, left: 0, width: 1 }));
  const whole = zoomed === ALL ? 1 : calls[zoomed]!.share;
  const add = (call: number, depth: number, left: number, width: number): void => {
    boxes.push({ call, depth, left, width });
    let from = left;
    const callees = (called.get(call) ?? []).sort((a, b) => calls[b]!.share - calls[a]!.share || a - b);
    for (const callee of callees) {
      const wide = whole > 0 ? calls[callee]!.share / whole : 0;
      if (wide >= least) {
        add(callee, depth + 1, from, wide);
      }
      from += wide;
    }
  };
  add(zoomed, above.length, 0, 1);
  return boxes;
}

/** Return a call's callers, outermost first, and before them what stands for all. */
function callersOf(calls: readonly Call[], call: number): number[] {
  const found: number[] = [];
  for (let at = call; at !== ALL; ) {
    at = calls[at]!.parent;
    found.unshift(at);
  }
  return found;
}

/** Return the box that an arrow key leads to from another: its caller, its longest callee, or one beside it. */
export function neighbour(boxes: readonly Box[], { calls }: Profile, from: Box, key: string): Box | null {
  const beside = boxes.filter(({ depth }) => depth === from.depth);
  switch (key) {
    case 'ArrowUp':
      return from.call === ALL ? null : (boxes.find(({ call }) => call === calls[from.call]!.parent) ?? null);
    case 'ArrowDown':
      return boxes.find(({ call, depth }) => depth === from.depth + 1 && call !== ALL && calls[call]!.parent === from.call) ?? null;
    case 'ArrowLeft':
      return beside.filter(({ left }) => left < from.left).at(-1) ?? null;
    case 'ArrowRight':
      return beside.find(({ left }) => left > from.left) ?? null;
    case 'Home':
      return boxes[0] ?? null;
    default:
      return null;
  }
}
