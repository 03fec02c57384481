import { describe, expect, it } from 'vitest';
import { LineReader, LINE_LIMIT, plain } from '../src/model/lines';
import { EVERYTHING, linesThrough, LogStore, MAX_LINES, parseRanks, type ShownLines } from '../src/model/logs';

function texts(lines: ShownLines): (string | undefined)[] {
  return Array.from({ length: lines.length }, (_, at) => lines.at(at)?.text);
}

describe('LineReader', () => {
  it('joins lines that chunks cut', () => {
    const reader = new LineReader();
    expect(reader.read('a')).toEqual([]);
    expect(reader.read('b\nc')).toEqual(['ab']);
    expect(reader.end()).toBe('c');
    expect(reader.end()).toBe('');
  });

  it('shows the end of a progress bar, and no terminal control', () => {
    const reader = new LineReader();
    expect(reader.read('1/4\r2/4\r')).toEqual([]);
    expect(reader.read('4/4\r\n')).toEqual(['4/4']);
    expect(reader.read('abc\b\bxy\n')).toEqual(['axy']);
    expect(reader.read('\x1b[1;31mred\x1b[0m\x00\x07 \x1b]0;title\x07end\n')).toEqual(['red end']);
  });

  it('cuts a line of 50 MB, and holds little of it', () => {
    const reader = new LineReader();
    for (let at = 0; at < 50; at++) {
      expect(reader.read('x'.repeat(1_000_000))).toEqual([]);
    }
    const [line] = reader.read('\n');
    expect(line).toHaveLength(LINE_LIMIT + 1);
    expect(line?.endsWith('…')).toBe(true);
  });

  it('leaves markup alone: it is text', () => {
    expect(plain('<script>alert(1)</script>')).toBe('<script>alert(1)</script>');
  });
});

describe('LogStore', () => {
  it('keeps the newest lines and counts those that went', () => {
    const store = new LogStore();
    for (let at = 0; at < MAX_LINES * 1.5; at++) {
      store.write(at % 4, 'stdout', `line ${at}\n`, 0);
    }
    expect(store.end).toBe(MAX_LINES * 1.5);
    expect(store.end - store.first).toBeGreaterThanOrEqual(MAX_LINES);
    expect(store.end - store.first).toBeLessThan(MAX_LINES * 1.1);
    expect(store.line(store.first - 1)).toBeUndefined();
    expect(store.line(store.end - 1)?.text).toBe(`line ${MAX_LINES * 1.5 - 1}`);
  });

  it('is bounded in characters too', () => {
    const store = new LogStore();
    for (let at = 0; at < 20_000; at++) {
      store.write(0, 'stdout', `${'x'.repeat(1999)}\n`, 0);
    }
    expect((store.end - store.first) * 1999).toBeLessThan(17_000_000);
  });

  it('says what was left out, and ends the line before it', () => {
    const store = new LogStore();
    store.write(1, 'stdout', 'half', 0);
    store.write(1, 'stdout', 'after\n', 12_345);
    expect([0, 1, 2].map((at) => store.line(at)?.text)).toEqual([
      'half',
      '… 12,345 bytes are only in the log file',
      'after',
    ]);
  });

  it('keeps ranks and streams apart', () => {
    const store = new LogStore();
    store.write(0, 'stdout', 'a', 0);
    store.write(1, 'stdout', 'b', 0);
    store.write(0, 'stderr', 'c', 0);
    store.finish(0);
    expect([0, 1].map((at) => store.line(at))).toEqual([
      { rank: 0, kind: 'stdout', text: 'a' },
      { rank: 0, kind: 'stderr', text: 'c' },
    ]);
    store.finish(null);
    expect(store.line(2)?.text).toBe('b');
  });

  it('finds the first error: a rank that raised before what only looks like one', () => {
    const store = new LogStore();
    expect(store.errorLine).toBeNull();
    store.write(0, 'stdout', 'ValueError\n', 0);
    expect(store.errorLine).toBeNull();
    store.write(0, 'stderr', 'RuntimeError: no\n', 0);
    expect(store.errorLine).toBe(1);
    store.error(2, ['Rank 2 raised', 'x']);
    expect(store.errorLine).toBe(2);
  });
});

describe('ShownLines', () => {
  it('filters by rank, stream and pattern, and goes on with new lines', () => {
    const store = new LogStore();
    store.write(0, 'stdout', 'loss 1\n', 0);
    store.write(1, 'stderr', 'loss 2\n', 0);
    store.write(2, 'stderr', 'other\n', 0);
    const some = linesThrough(store, { ranks: new Set([0, 1]), pattern: /loss/, stderrOnly: false });
    const errors = linesThrough(store, { ...EVERYTHING, stderrOnly: true });
    expect(some.advance()).toBe(false);
    errors.advance();
    expect(texts(some)).toEqual(['loss 1', 'loss 2']);
    expect(texts(errors)).toEqual(['loss 2', 'other']);
    store.write(1, 'stdout', 'loss 3\n', 0);
    some.advance();
    expect(texts(some)).toEqual(['loss 1', 'loss 2', 'loss 3']);
    expect(some.placeOf(1)).toBe(1);
    expect(some.placeOf(2)).toBe(2);
  });

  it('looks at as many lines as it is told, and forgets those that went', () => {
    const store = new LogStore();
    for (let at = 0; at < 3 * MAX_LINES; at++) {
      store.write(0, 'stdout', `${at}\n`, 0);
    }
    const lines = linesThrough(store, { ...EVERYTHING, pattern: /\d/ });
    const all = linesThrough(store, EVERYTHING);
    expect([all.length, all.advance(10), all.length]).toEqual([0, false, store.end - store.first]);
    expect(lines.advance(10)).toBe(true);
    expect(lines.length).toBe(10);
    while (lines.advance(10_000));
    expect(lines.at(0)?.text).toBe(String(store.first));
    for (let at = 0; at < 2 * MAX_LINES; at++) {
      store.write(0, 'stdout', `${at}\n`, 0);
    }
    while (lines.advance());
    expect(lines.length).toBe(store.end - store.first);
    expect(lines.at(lines.length - 1)?.text).toBe(String(2 * MAX_LINES - 1));
    // Until they are looked at again, those that went have no text, and no new one takes their place.
    const [length, first] = [all.length, store.first];
    expect([all.at(0), all.at(length - 1), all.at(length)]).toEqual([undefined, undefined, undefined]);
    all.advance();
    expect(texts(all)).toEqual(texts(lines));
    expect([first - 1, first, first + 7, store.end + 5].map((number) => all.placeOf(number))).toEqual([0, 0, 7, all.length]);
    expect([first - 1, first, first + 7, store.end + 5].map((number) => lines.placeOf(number))).toEqual([0, 0, 7, all.length]);
  });
});

describe('parseRanks', () => {
  it('reads lists, and knows what is none', () => {
    expect(parseRanks('')).toBeNull();
    expect(parseRanks('0-2, 7')).toEqual(new Set([0, 1, 2, 7]));
    for (const wrong of ['x', '3-1', '1,', '-1', '0-9999999']) {
      expect(parseRanks(wrong)).toBeUndefined();
    }
  });
});

describe('what was left out', () => {
  it('is counted, and told where it stood', () => {
    const store = new LogStore();
    store.write(0, 'stdout', 'a\n', 0);
    store.write(0, 'stdout', 'b\n', 1200);
    store.write(1, 'stderr', '', 34);
    expect(store.skippedBytes).toBe(1234);
    expect(Array.from({ length: store.end }, (_, at) => store.line(at)?.text)).toEqual([
      'a',
      '… 1,200 bytes are only in the log file',
      'b',
      '… 34 bytes are only in the log file',
    ]);
  });
});
