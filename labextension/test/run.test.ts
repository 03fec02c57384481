import { describe, expect, it } from 'vitest';
import fixture from '../schema/events.fixture.json';
import type { MetricsSample, RankFailed, RankLost } from '../src/model/events';
import { Feed, unpacked } from '../src/model/feed';
import { parseEvent, Table } from '../src/model/parse';
import { RunModel } from '../src/model/run';
import { MAX_BINS } from '../src/model/series';

function sample(rank: number, at_s: number, more: Partial<MetricsSample> = {}): MetricsSample {
  const trained = { step: Math.round(at_s), steps: 1, samples_per_s: 100, step_s: 0.1, input_s: 0.02, exchange_s: 0.03, loss: 1 };
  const base = { type: 'metrics', run: 'r', rank, at_s, cpu_pct: 50, rss_bytes: 2 ** 30 };
  return parseEvent({ ...base, ...trained, ...more }) as MetricsSample;
}

function started(ranks: number): RunModel {
  const model = new RunModel();
  model.handle({ type: 'run_started', run: 'r', ranks: [...Array(ranks).keys()], world_size: ranks, at_s: 0 });
  return model;
}

function failed(rank: number, at_s: number, released = false): RankFailed {
  const told = { name: 'ValueError', message: 'no\nmore', traceback: ['Traceback', '\x1b[31mValueError\x1b[0m: no'] };
  return { type: 'rank_failed', run: 'r', rank, host: 'h', ...told, released, at_s, uses_horovod: false, reason: null, given: null, entered: null, n: 0 };
}

describe('the state of a rank', () => {
  it('goes from waiting to its end', () => {
    const model = started(3);
    model.rank(9);
    expect(model.ranks.map(({ state }) => state)).toEqual(['running', 'running', 'running', 'waiting']);
    model.handle(sample(0, 1, { step: null }));
    expect(model.rank(0).state).toBe('running');
    model.handle(sample(0, 2));
    expect(model.rank(0).state).toBe('training');
    const mark = { type: 'straggler', run: 'r', rank: 0, at_s: 3, ratio: 1.5, spends_on: 'input' } as const;
    model.handle({ ...mark, is_straggler: true });
    expect(model.rank(0).state).toBe('straggler');
    model.handle(sample(0, 4));
    expect(model.rank(0).state).toBe('straggler');
    model.handle({ ...mark, is_straggler: false });
    expect(model.rank(0).state).toBe('training');
    model.handle({ type: 'rank_finished', run: 'r', rank: 0, at_s: 5, uses_horovod: false, horovod_runs: false, entered: null, n: 0 });
    model.handle(failed(1, 5));
    model.handle(failed(2, 6, true));
    expect(model.ranks.slice(0, 3).map(({ state }) => state)).toEqual(['finished', 'failed', 'released']);
    model.handle(parseEvent({ type: 'rank_lost', rank: null, fault: { kind: 'lost', text: 'mpiexec ended' }, at_s: 7 }) as RankLost);
    expect(model.ranks.map(({ state }) => state)).toEqual(['finished', 'failed', 'released', 'lost']);
    expect(model.lost).toBe('mpiexec ended');
  });

  it('names the first rank that raised, by its clock, and not those that were released', () => {
    const model = started(3);
    model.handle(failed(2, 4, true));
    expect(model.firstFailure).toBeNull();
    model.handle(failed(1, 5));
    model.handle(failed(0, 4.5));
    expect(model.firstFailure?.rank).toBe(0);
    expect(model.logs.errorLine).toBe(0);
    expect(model.logs.line(2)?.text).toBe('ValueError: no');
  });
});

describe('figures', () => {
  it('sums the rates of ranks that train now', () => {
    const model = started(3);
    model.handle(sample(0, 10));
    model.handle(sample(1, 10, { samples_per_s: 50 }));
    model.handle(sample(2, 1));
    expect(model.means.rate()).toEqual({ total: 150, ranks: 2 });
    expect(model.means.range()).toEqual({ least: 50, greatest: 100 });
    expect(model.means.efficiency()).toBeNull();
    model.means.singleRankSamplesPerS = 100;
    expect(model.means.efficiency()).toBeCloseTo(0.75);
    expect(model.means.split()).toEqual({ compute_s: expect.closeTo(0.05), exchange_s: 0.03, input_s: 0.02 });
    expect(model.means.loss()).toBe(1);
  });

  it('keeps the last figures when the run is over', () => {
    const model = started(1);
    model.handle(sample(0, 1));
    model.handle({ type: 'rank_finished', run: 'r', rank: 0, at_s: 2, uses_horovod: false, horovod_runs: false, entered: null, n: 0 });
    expect(model.means.rate().total).toBe(0);
    expect(model.means.range()).toBeNull();
    model.handle({ type: 'run_finished', run: 'r', outcome: 'finished', seconds: 2, fault: null });
    expect(model.means.rate().total).toBe(100);
  });

  it('a NaN loss is told, and does not spoil the curve', () => {
    const model = started(1);
    model.handle(sample(0, 1, { step: 1 }));
    model.handle(sample(0, 2, { step: 2, loss: NaN }));
    expect(model.means.loss()).toBeNaN();
    expect(model.curves.metrics.get('loss')?.means()).toEqual([1, null]);
  });
});

describe('series', () => {
  it('totals count a rank between its samples, and wait for all ranks at the end', () => {
    const model = started(2);
    for (const at of [0, 1, 2, 3, 4]) {
      model.handle(sample(0, at));
      if (at % 2 === 0 && at < 4) {
        model.handle(sample(1, at, { samples_per_s: 10 }));
      }
    }
    expect(model.ratesOverTime().rates.total).toEqual([110, 110, 110, 100, 100]);
    expect(model.ratesOverTime().settled).toBe(3);
    model.handle(sample(1, 4, { samples_per_s: 10 }));
    expect(model.ratesOverTime().rates.total).toEqual([110, 110, 110, 110, 110]);
    expect(model.ratesOverTime().settled).toBe(5);
  });

  it('stay bounded, and right, over a day', () => {
    const model = started(2);
    for (let at = 0; at < 86_400; at += 10) {
      for (const rank of [0, 1]) {
        model.handle(sample(rank, at, { samples_per_s: at < 43_200 ? 100 : 200, step: at }));
      }
      if (at % 1000 === 0) {
        model.ratesOverTime();
      }
    }
    const { total } = model.ratesOverTime().rates;
    expect(total.length).toBeLessThanOrEqual(MAX_BINS);
    expect(total[10]).toBeCloseTo(200);
    expect(total.at(-2)).toBeCloseTo(400);
    expect(model.curves.time.places().at(-1)).toBeGreaterThan(86_000);
    expect(model.rateOf(1)[5]).toBeCloseTo(100);
    expect(model.curves.metrics.get('loss')?.means().every((value) => value === null || value === 1)).toBe(true);
  });

  it('of 1,024 ranks take little time', () => {
    const model = started(1024);
    const began = performance.now();
    for (let at = 0; at < 40; at++) {
      for (let rank = 0; rank < 1024; rank++) {
        model.handle(sample(rank, at));
      }
      model.ratesOverTime();
    }
    // 40 s of a run. On an idle machine a second of it takes some milliseconds.
    expect((performance.now() - began) / 40).toBeLessThan(200);
    expect(model.ratesOverTime().rates.total[30]).toBeCloseTo(102_400);
  });

  it('take no more than so many metrics', () => {
    const model = started(1);
    const metrics = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`m${at}`, at]));
    model.handle(sample(0, 1, { metrics }));
    expect(model.curves.metrics.size).toBe(12);
  });
});

describe('Feed', () => {
  const bytes = (first: number, next: number, events: unknown[]): DataView<ArrayBuffer> =>
    new DataView(new TextEncoder().encode(JSON.stringify({ first, next, single: 5, tables, events })).buffer);
  const tables = [
    {
      type: 'metrics',
      columns: ['at_s', 'rank', 'cpu_pct', 'rss_bytes', 'step', 'samples_per_s', 'loss', 'of_a_newer_kernel'],
      common: { run: 'r', model: 'm' },
    },
    { type: 'output', columns: ['rank', 'stream', 'text', 'skipped_bytes'], common: { run: 'r' } },
    { type: 'gossip', columns: ['text'], common: {} },
  ];
  const line = (text: string): unknown => ({ type: 'output', run: 'r', rank: 0, stream: 'stdout', text: `${text}\n` });
  const shown = (feed: Feed): (string | undefined)[] =>
    Array.from({ length: feed.model.logs.end }, (_, at) => feed.model.logs.line(at)?.text);

  it('takes each event once, in any mix of batches and histories', () => {
    const feed = new Feed();
    expect(feed.takeBatch(new DataView(new ArrayBuffer(0)))).toBe(false);
    expect(feed.takeHistory(bytes(0, 2, [line('a'), line('b')]))).toBe(true);
    expect(feed.takeBatch(bytes(0, 2, [line('a'), line('b')]))).toBe(false);
    expect(feed.takeBatch(bytes(1, 3, [line('b'), line('c')]))).toBe(true);
    expect(feed.takeHistory(bytes(0, 3, [line('a'), line('b'), line('c')]))).toBe(false);
    expect(shown(feed)).toEqual(['a', 'b', 'c']);
    expect(feed.model.means.singleRankSamplesPerS).toBe(5);
    expect(feed.isBehind).toBe(false);
  });

  it('goes on after a gap, and is whole again with the next history', () => {
    const feed = new Feed();
    feed.takeHistory(bytes(0, 1, [line('a')]));
    expect(feed.takeBatch(bytes(3, 4, [line('d')]))).toBe(true);
    expect(feed.isBehind).toBe(true);
    expect(feed.takeHistory(bytes(0, 2, [line('a'), line('b')]))).toBe(false);
    expect(feed.takeHistory(bytes(0, 4, ['a', 'b', 'c', 'd'].map(line)))).toBe(true);
    expect(feed.isBehind).toBe(false);
    expect(shown(feed)).toEqual(['a', 'b', 'c', 'd']);
  });

  it('unpacks what zlib has compressed', async () => {
    const stream = new Blob([bytes(0, 1, [line('a')])]).stream().pipeThrough(new CompressionStream('deflate'));
    const packed = new DataView(await new Response(stream).arrayBuffer());
    const feed = new Feed();
    expect(feed.takeHistory(await unpacked(packed))).toBe(true);
    expect(shown(feed)).toEqual(['a']);
    expect(feed.needsHistory).toBe(false);
    expect(await unpacked(new DataView(new ArrayBuffer(0)))).toBeNull();
    await expect(unpacked(bytes(0, 1, []))).rejects.toThrow();
  });

  it('reads a row of many ranks as an event of each, and counts them', () => {
    const feed = new Feed();
    feed.takeHistory(bytes(0, 3, [[1, [0, 1, 2], 'stdout', 'a\n']]));
    expect(feed.takeBatch(bytes(1, 5, [[1, [1, 2, 3], 'stdout', 'a\n'], line('b')]))).toBe(true);
    const lines = Array.from({ length: feed.model.logs.end }, (_, at) => feed.model.logs.line(at));
    expect(lines.map((one) => `${one?.rank} ${one?.text}`)).toEqual(['0 a', '1 a', '2 a', '3 a', '0 b']);
    feed.takeBatch(bytes(5, 7, [[1, [0, 'one'], 'stdout', 'c\n']]));
    expect(feed.model.malformed).toBe(1);
    expect(feed.next).toBe(7);
  });

  it('keeps of each rank what it told last of its training, and of itself', () => {
    const feed = new Feed();
    const first = [0, 10.5, 0, 50, 2 ** 30, 7, 100, 0.5];
    feed.takeHistory(bytes(0, 2, [first, [0, 11.5, 0, 60, 2 ** 31]]));
    expect(feed.model.rank(0).trained).toMatchObject({ at_s: 10.5, samples_per_s: 100, loss: 0.5, cpu_pct: 50 });
    expect(feed.model.rank(0).latest).toMatchObject({ at_s: 11.5, samples_per_s: null, loss: null, rss_bytes: 2 ** 31 });
  });

  it('reads events that are rows, however much of them there is', () => {
    const feed = new Feed();
    const output = [
      [1, 0, 'stdout', 'a\n'],
      [1, 0, 'stdout', 'b\n', 7],
      [2, 'unknown'],
    ];
    feed.takeHistory(bytes(0, 5, [[0, 10.5, 3, 50, 2 ** 30, 7, 100, 'NaN', 'new'], [0, 10.5, 4, 60, 2 ** 30], ...output]));
    expect(feed.model.malformed).toBe(0);
    expect(feed.model).toMatchObject({ model: 'm', step: 7 });
    expect(feed.model.rankOrUndefined(3)?.trained).toMatchObject({ samples_per_s: 100, loss: NaN, step_s: null });
    expect(feed.model.rankOrUndefined(4)?.latest).toMatchObject({ cpu_pct: 60, gpu_pct: null });
    expect(feed.model.rankOrUndefined(4)?.trained).toBeNull();
    const whole = new Table(tables[0]).read([0, 10.5, 4, 60, 2 ** 30]);
    expect(whole).toMatchObject({ type: 'metrics', model: 'm', steps: 0, step: null, metrics: {} });
    expect(shown(feed)).toEqual(['a', '… 7 bytes are only in the log file', 'b']);
  });

  it('passes over what is no event', () => {
    const feed = new Feed();
    const rows = [[], [9], [1, 0, 'stdout'], [1, 0, 'stdout', null], [0, 10.5, 'three', 50, 2 ** 30]];
    feed.takeHistory(bytes(0, 8, [{ type: 'output' }, { type: 'gossip' }, ...rows, line('a')]));
    expect(feed.model.malformed).toBe(6);
    expect(shown(feed)).toEqual(['a']);
  });

  it('takes all that Python writes', () => {
    const feed = new Feed();
    feed.takeHistory(bytes(0, fixture.length, fixture));
    expect(feed.model.malformed).toBe(0);
    expect(feed.model.outcome).toBe('failed');
    expect(feed.model.rank(1).trained?.gpu_pct).toBe(87.5);
    expect(shown(feed)).toContain('é<script>alert(1)</script>bold');
  });
});
