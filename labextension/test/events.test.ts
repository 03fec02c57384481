// The examples that Python writes are events here, and what is none is refused.
import { describe, expect, it } from 'vitest';
import fixture from '../schema/events.fixture.json';
import { FIELDS } from '../src/model/event_fields';
import { parseEvent } from '../src/model/parse';

/** What an example is once it is read: its words for NaN and the infinities are numbers. */
function numbered(value: unknown): unknown {
  const words: Readonly<Record<string, number>> = { NaN: NaN, Infinity: Infinity, '-Infinity': -Infinity };
  if (typeof value === 'string') {
    return words[value] ?? value;
  }
  if (Array.isArray(value) || typeof value !== 'object' || value === null) {
    return value;
  }
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, numbered(item)]));
}

describe('the fixture that Python writes', () => {
  it('has every type of event', () => {
    expect(new Set(fixture.map((example) => example.type))).toEqual(new Set(Object.keys(FIELDS)));
  });

  it.each(fixture.map((example) => [example.type, example] as const))('%s parses to itself', (_, example) => {
    expect(parseEvent(structuredClone(example))).toEqual(numbered(example));
  });

  it.each(fixture.map((example) => [example.type, example] as const))('%s can leave out its defaults', (type, example) => {
    const fields = FIELDS[type as keyof typeof FIELDS];
    const short = Object.entries(example).filter(
      ([name, value]) => JSON.stringify(fields[name]?.default) !== JSON.stringify(value),
    );
    expect(parseEvent(structuredClone(Object.fromEntries(short)))).toEqual(numbered(example));
  });
});

describe('what is no event', () => {
  it.each([
    [null, /An event must be an object with a type/],
    [{ type: 'rank_lost', fault: {}, at_s: 1 }, /rank of a rank_lost event must be: number or null\. Received: undefined/],
    [{ type: 'rank_lost', rank: '1', fault: {}, at_s: 1 }, /must be: number or null\. Received: "1"/],
    [{ type: 'rank_lost', rank: 1, fault: 'c', at_s: 1 }, /fault of a rank_lost event must be: object\. Received: "c"/],
    [{ type: 'rank_failed', traceback: 'x' }, /run of a rank_failed event must be: string/],
  ])('%j is told', (value, message) => {
    expect(() => parseEvent(value)).toThrow(message);
  });

  it('of a newer kernel is left out, and so are fields', () => {
    expect(parseEvent({ type: 'gossip' })).toBeNull();
    expect(parseEvent({ type: 'toString' })).toBeNull();
    const lost = { type: 'rank_lost', rank: 1, fault: { kind: 'lost', text: 'c' }, at_s: 1 };
    expect(parseEvent({ ...lost, more: 1 })).toEqual(parseEvent(lost));
  });

  it('of a fault has a text at least', () => {
    expect(parseEvent({ type: 'rank_lost', rank: 1, fault: { kind: 'lost' }, at_s: 1 })).toMatchObject({ fault: { text: '' } });
  });

  it.each([
    { type: 'rank_lost', rank: 1, cause: 'killed', at_s: 1 },
    { type: 'rank_silent', rank: 1, seconds: 10, state: 'killed', at_s: 1 },
    { type: 'stall_reported', run: 'r', ranks: [0], at_s: 1, text: 'killed' },
  ])('of an older version said its fault in words: %j', (older) => {
    expect(parseEvent(older)).toMatchObject({ type: older.type, fault: { text: 'killed' } });
  });

  it('the fixture has NaN and both infinities', () => {
    const odd = fixture.filter((example) => example.type === 'metrics').map(numbered);
    expect(odd).toContainEqual(expect.objectContaining({ loss: NaN, samples_per_s: Infinity, step_s: -Infinity }));
  });

  it('NaN and infinity come as words', () => {
    const sample = { type: 'metrics', run: 'r', rank: 0, at_s: 1, cpu_pct: 1, rss_bytes: 1, loss: 'NaN' };
    expect(parseEvent(sample)).toMatchObject({ loss: NaN });
    expect(parseEvent({ ...sample, metrics: { auc: 'Infinity' } })).toMatchObject({ metrics: { auc: Infinity } });
  });
});
