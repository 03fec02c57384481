import { describe, expect, it } from 'vitest';
import { sameCount, sectionsOf } from '../src/model/differences';
import { type DiffLine, hunks, lineDiff, sideBySide } from '../src/model/line_diff';
import { factsOf } from '../src/model/run_facts';
import type { RunDetails } from '../src/model/server';
import { record } from './fake_server';

/** As `diff` writes it: what both have, what is gone, what came. */
const shown = (lines: readonly DiffLine[]): string[] =>
  lines.map(({ before, after, text }) => `${before === null ? '+' : after === null ? '-' : ' '}${text}`);

describe('the lines of two texts', () => {
  it.each([
    ['', '', []],
    ['a\nb\n', 'a\nb', [' a', ' b']],
    ['', 'a', ['+a']],
    ['a', '', ['-a']],
    ['a\nb\nc', 'a\nx\nc', [' a', '-b', '+x', ' c']],
    ['a\nb\nc\na\nb\nb\na', 'c\nb\na\nb\na\nc', ['-a', '-b', ' c', '+b', ' a', ' b', '-b', ' a', '+c']],
    ['x\r\ny', 'x\ny', [' x', ' y']],
  ])('%j and %j', (first, second, expected) => {
    expect(shown(lineDiff(first, second))).toEqual(expected);
  });

  it('are all there, with as few differences as there can be', () => {
    let seed = 7;
    const random = (below: number): number => (seed = (seed * 1103515245 + 12345) % 2 ** 31) % below;
    for (let turn = 0; turn < 200; turn++) {
      const text = (): string[] => Array.from({ length: random(12) }, () => 'abc'[random(3)]!);
      const [a, b] = [text(), text()];
      const lines = lineDiff(a.join('\n'), b.join('\n'));
      expect(lines.filter(({ before }) => before !== null).map(({ text: one }) => one)).toEqual(a);
      expect(lines.filter(({ after }) => after !== null).map(({ text: one }) => one)).toEqual(b);
      const common = lines.filter(({ before, after }) => before !== null && after !== null).length;
      expect(common).toBe(longest(a, b));
    }
  });

  it('that have nothing in common take no longer than others', () => {
    const many = (from: number): string => Array.from({ length: 20_000 }, (_, at) => String(from + at)).join('\n');
    const lines = lineDiff(many(0), many(1e6));
    expect(lines.length).toBe(40_000);
    expect(lines[0]).toEqual({ before: 1, after: null, text: '0' });
  });

  it('are shown where they differ, with those around', () => {
    const lines = lineDiff('1\n2\n3\n4\n5\n6\n7', '1\n2\n3\nx\n5\n6\n7');
    const found = hunks(lines, 1);
    expect(found.map(({ skipped, lines: of }) => [skipped, shown(of)])).toEqual([[2, [' 3', '-4', '+x', ' 5']], [2, []]]);
    expect(hunks(lineDiff('a', 'a'), 3)).toEqual([{ skipped: 1, lines: [] }]);
  });

  it('stand side by side', () => {
    const rows = sideBySide(lineDiff('a\nb\nc\nd', 'a\nx\ny\nz\nd'));
    expect(rows.map(({ left, right }) => [left?.text ?? '', right?.text ?? ''])).toEqual([['a', 'a'], ['b', 'x'], ['c', 'y'], ['', 'z'], ['d', 'd']]);
    expect(rows.at(-1)).toMatchObject({ left: { before: 4 }, right: { after: 5 } });
  });
});

/** The length of the longest common subsequence, by the plain way. */
function longest(a: readonly string[], b: readonly string[]): number {
  const table = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0));
  for (const [i, x] of a.entries()) {
    for (const [j, y] of b.entries()) {
      table[i + 1]![j + 1] = x === y ? table[i]![j]! + 1 : Math.max(table[i]![j + 1]!, table[i + 1]![j]!);
    }
  }
  return table[a.length]![b.length]!;
}

describe('what differs between runs', () => {
  const details = (run: string, more: object): RunDetails => ({ record: record(run), cell: '', place: { path: null, problem: 'none' }, hasTimeline: false, facts: factsOf(more) });
  const one = details('a', {
    parameters: { rate: 0.1, epochs: 3 },
    options: { stalls: { after_s: 10 }, auto: null },
    devices: { 1: 'GPU 1 (H200)', 0: 'GPU 0 (H200)' },
    git_commit: 'abc',
  });
  const two = details('b', { parameters: { rate: 0.2, epochs: 3, extra: true }, options: { stalls: { after_s: 10 }, auto: null } });
  const sections = sectionsOf([one, two, null], [{ loss: 1, accuracy: null }, { loss: 2, accuracy: null }, {}]);
  const rows = (kind: string) => sections.find((section) => section.kind === kind)!.rows;

  it('is marked row by row', () => {
    const two_ = sectionsOf([one, two], [{}, {}]);
    expect(two_[1]!.rows.map(({ name, values, differs }) => [name, ...values, differs])).toEqual([
      ['rate', 0.1, 0.2, true],
      ['epochs', 3, 3, false],
      ['extra', undefined, true, true],
    ]);
    expect(two_[3]!.rows.map(({ name, differs }) => [name, differs])).toEqual([['stalls.after_s', false], ['auto', false]]);
    expect(sameCount(two_)).toBeGreaterThanOrEqual(3);
  });

  it('a run that is not known has nothing', () => {
    expect(rows('parameters')[0]!.values).toEqual([0.1, 0.2, undefined]);
  });

  it('devices are counted by their kind, and what no run has is left out', () => {
    expect(rows('run').find(({ name }) => name === 'devices')!.values).toEqual(['2 × H200', undefined, undefined]);
    expect(rows('run').some(({ name }) => name === 'script')).toBe(false);
    expect(rows('figures').map(({ name }) => name)).toEqual(['loss']);
  });
});
