import { describe, expect, it } from 'vitest';
import { RunList } from '../src/model/run_list';
import { recordOf, type RunPage, type RunRecord } from '../src/model/runs';

const record = (at: number, state = 'finished'): RunRecord => recordOf({ run: `r${at}`, start_s: at, state })!;
/** The runs from one number down to another. */
const page = (from: number, to: number, next: number | null = null): RunPage => {
  const runs = Array.from({ length: from - to + 1 }, (_, at) => record(from - at));
  return { runs, more: next !== null, next: next === null ? null : `r${next}` };
};
const idsOf = (list: RunList): string[] => list.runs.map(({ run }) => run);

describe('the list of runs', () => {
  const begun = (): RunList => {
    const list = new RunList();
    list.reset(page(9, 6, 6));
    list.append(page(5, 2, 2));
    return list;
  };

  it('keeps what was read below a new head', () => {
    const list = begun();
    const head = page(11, 8, 8);
    expect(list.reaches(head)).toBe(true);
    expect(list.join(head)).toBe(2);
    expect(idsOf(list)).toEqual(['r11', 'r10', 'r9', 'r8', 'r7', 'r6', 'r5', 'r4', 'r3', 'r2']);
    expect(list.next).toBe('r2');
  });

  it('loses those of the head that were deleted elsewhere, and takes what the others have become', () => {
    const list = begun();
    const head: RunPage = { runs: [record(10), record(9, 'failed'), record(6)], more: true, next: 'r6' };
    expect(list.join(head)).toBe(1);
    expect(idsOf(list)).toEqual(['r10', 'r9', 'r6', 'r5', 'r4', 'r3', 'r2']);
    expect(list.runs[1]!.state).toBe('failed');
    list.update(record(3, 'cut off'));
    expect(list.runs[5]!.state).toBe('cut off');
    list.remove('r5');
    expect(idsOf(list)).not.toContain('r5');
  });

  it('is not joined to a head that does not reach it', () => {
    expect(begun().reaches(page(30, 20, 20))).toBe(false);
    // The last page of all reaches it, for there is nothing below.
    const list = begun();
    expect(list.reaches(page(30, 29))).toBe(true);
    expect(list.join(page(30, 29))).toBe(0);
    expect(idsOf(list)).toEqual(['r30', 'r29']);
    expect(list.next).toBeNull();
  });

  it('has each run once', () => {
    const list = begun();
    list.append(page(3, 1));
    expect(idsOf(list).filter((run) => run === 'r3')).toHaveLength(1);
    expect(list.next).toBeNull();
  });
});
