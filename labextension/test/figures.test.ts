// A run's figures are one number in every view; the browser and Python read the same fixture.
import { describe, expect, it } from 'vitest';
import fixture from '../schema/figures.fixture.json';
import { number } from '../src/components/format';
import { Feed } from '../src/model/feed';
import { numberOf, parseEvent } from '../src/model/parse';
import type { Rank } from '../src/model/rank';
import { RunModel } from '../src/model/run';

function near(value: unknown): unknown {
  const expected = numberOf(value);
  return value === null || !Number.isFinite(expected) ? (value === null ? null : expected) : expect.closeTo(expected, 9);
}

function modelOf(events: readonly unknown[]): RunModel {
  const model = new RunModel();
  for (const event of structuredClone(events)) {
    model.handle(parseEvent(event)!);
  }
  return model;
}

const metrics = (rank: number, at_s: number, more: object): object => ({
  ...{ type: 'metrics', run: 'r', rank, at_s, cpu_pct: 50, rss_bytes: 2 ** 30, step: 2, steps: 1 },
  ...more,
});
const STARTED = { type: 'run_started', run: 'r', ranks: [0, 1], world_size: 2, at_s: 0 };
const FINISHED = { type: 'run_finished', run: 'r', outcome: 'finished', seconds: 9 };

describe('the figures of a run', () => {
  it.each(fixture.map((one) => [one.name, one] as const))('%s', (_, one) => {
    const model = modelOf(one.events);
    const { total, ranks } = model.means.rate();
    expect(ranks === 0 ? null : total).toEqual(near(one.samples_per_s));
    expect(ranks).toBe(one.ranks);
    expect(model.means.loss()).toEqual(near(one.loss));
    expect(model.means.step_s()).toEqual(near(one.step_s));
    const trained = model.ranks.filter((rank) => rank.trained !== null);
    const shown = Object.fromEntries(
      trained.map((rank) => {
        const { samples_per_s, step_s, exchange_s, input_s, loss } = model.means.of(rank);
        return [String(rank.rank), { samples_per_s, step_s, exchange_s, input_s, loss }];
      }),
    );
    const expected = Object.entries(one.of).map(([rank, mean]) => [
      rank,
      Object.fromEntries(Object.entries(mean).map(([name, value]) => [name, near(value)])),
    ]);
    expect(shown).toEqual(Object.fromEntries(expected));
  });

  it('are those that come with the end of the run: a page has few of its samples', () => {
    const feed = new Feed();
    const columns = ['rank', 'samples_per_s', 'step_s', 'exchange_s', 'input_s', 'loss', 'of_a_newer_kernel'];
    const rows = [[0, 40.5, 0.25, 0.125, null, 'NaN', 1], [1, 60, 0.25, null, null, 2, 1]];
    const events = [STARTED, metrics(0, 1, { samples_per_s: 9, step_s: 1 }), metrics(1, 1, { samples_per_s: 9, step_s: 1 })];
    const send = (first: number, content: unknown[], more: object): void => {
      const message = { first, next: first + content.length, single: null, tables: [], events: content, ...more };
      feed.takeBatch(new DataView(new TextEncoder().encode(JSON.stringify(message)).buffer));
    };
    send(0, events, {});
    expect(feed.model.means.rate()).toEqual({ total: 18, ranks: 2 });
    send(3, [FINISHED], { means: { columns, rows } });
    expect(feed.model.means.rate()).toEqual({ total: 100.5, ranks: 2 });
    expect(feed.model.means.split()).toEqual({ compute_s: 0.1875, exchange_s: 0.0625, input_s: 0 });
    expect(feed.model.means.loss()).toBeNaN();
    send(4, [{ ...FINISHED, type: 'gossip' }], { means: 'none' });
    expect(feed.model.means.rate().total).toBe(100.5);
  });

  it('beside the mean the newest is known, while the run goes on', () => {
    const events = [STARTED, metrics(0, 1, { samples_per_s: 10, step_s: 1 }), metrics(0, 2, { samples_per_s: 30, step_s: 1 })];
    const model = modelOf(events);
    expect([model.means.rate().total, model.means.rateNow()]).toEqual([20, 30]);
    expect(modelOf([...events, FINISHED]).means.rateNow()).toBeNull();
  });
});

describe('odd figures', () => {
  const odd = ['NaN', 'Infinity', '-Infinity', -5, 1e308, 5e-324];
  const names = ['at_s', 'samples_per_s', 'step_s', 'exchange_s', 'input_s', 'loss', 'cpu_pct', 'gpu_pct', 'step'];

  it.each(odd.flatMap((value) => names.map((name) => [value, name] as const)))('%s as %s are told, and drawn nowhere', (value, name) => {
    const usual = { samples_per_s: 10, step_s: 0.1, exchange_s: 0.05, input_s: 0.01, loss: 1, metrics: { auc: value } };
    const events = [1, 2, 3, 4].flatMap((at) => [metrics(0, at, usual), metrics(1, at, { ...usual, [name]: value })]);
    for (const over of [[], [FINISHED]]) {
      const model = modelOf([STARTED, ...events, ...over]);
      expect(model.means.rate().ranks).toBeGreaterThan(0);
      const curves = [model.ratesOverTime().rates.total, model.curves.computeS.means(), model.curves.device.means(), model.curves.metrics.get('auc')!.means()];
      for (const drawn of [...curves.flat(), ...model.curves.time.places(), ...model.curves.steps.places()]) {
        expect(drawn === null || Number.isFinite(drawn)).toBe(true);
      }
      expect(model.curves.newest.get('auc')).toEqual(numberOf(value));
      if (name === 'loss') {
        expect(number(model.means.of(model.rank(1)).loss)).toBe(number(numberOf(value)));
      }
    }
  });

  it('an efficiency of nothing is none', () => {
    const model = modelOf([STARTED, metrics(0, 1, { samples_per_s: 10, step_s: 0.1 })]);
    for (const single of [NaN, Infinity, 0, -1]) {
      model.means.singleRankSamplesPerS = single;
      expect(model.means.efficiency()).toBeNull();
    }
  });

  it('one bad event ends neither its run nor another', () => {
    const feed = new Feed();
    feed.model.handle = (() => {
      throw new RangeError('Invalid array length');
    }) as RunModel['handle'];
    const message = { first: 0, next: 1, single: null, tables: [], events: [STARTED] };
    feed.takeBatch(new DataView(new TextEncoder().encode(JSON.stringify(message)).buffer));
    expect([feed.next, feed.model.malformed]).toEqual([1, 1]);
  });
});

describe('the ranks of a run', () => {
  const ready = (rank: number): object => ({
    ...{ type: 'rank_ready', rank, world_size: 2, local_rank: rank, host: `node-${rank}`, pid: 1, device: 'CPU', threads: 1 },
  });
  const alone = { ...STARTED, ranks: [0] };
  const states = (model: RunModel): [number, string][] => model.ranks.map((rank: Rank) => [rank.rank, rank.state]);

  it('are those that take part in it, and have their hosts', () => {
    for (const events of [[ready(0), ready(1), alone], [alone, ready(1), ready(0)]]) {
      const model = modelOf(events);
      expect(states(model)).toEqual([[0, 'running']]);
      expect(model.rank(0).host).toBe('node-0');
    }
  });

  it('are lost with one that takes no part', () => {
    const model = modelOf([alone, { type: 'rank_lost', rank: 1, fault: { kind: 'lost', text: 'killed' }, at_s: 1 }]);
    expect(states(model)).toEqual([[0, 'lost']]);
  });
});

describe('the axis of what a step is spent on', () => {
  const step = (at: number, step_s: number, steps = 10, count = 100): object => metrics(0, at, { step_s, steps, step: count, samples_per_s: 1 });
  const axis = (events: object[]): { atMost: number | null; cut: number | null } => {
    const model = modelOf([STARTED, ...events]);
    return model.curves.stepAxis(model.curves.computeS.means());
  };

  it('is for the steps after the first, which are cut', () => {
    const first = step(1, 2.5, 1, 1);
    const { atMost, cut } = axis([first, ...[2, 3, 4, 5].map((at) => step(at, 0.02))]);
    expect(atMost).toBeCloseTo(0.022);
    expect(cut).toBe(2.5);
    // Each fit has its own.
    expect(axis([first, step(2, 0.02), step(3, 1.5, 1, 1), step(4, 0.03)]).atMost).toBeCloseTo(0.033);
    // Also where its steps count on.
    const end = { type: 'epoch_ended', run: 'r', rank: 0, at_s: 2.5, epoch: 0, step: 100, metrics: { loss: 1 }, is_last: true };
    expect(axis([first, step(2, 0.02), end, step(3, 1.5, 1, 101), step(4, 0.03, 10, 111)]).atMost).toBeCloseTo(0.033);
  });

  it('is whole where nothing stands out, or where there is nothing else', () => {
    expect(axis([step(1, 0.021, 10, 10), step(2, 0.02)])).toEqual({ atMost: null, cut: null });
    expect(axis([step(1, 2.5, 1, 1)])).toEqual({ atMost: null, cut: null });
    // What is slow later on is of interest.
    expect(axis([step(1, 0.02, 10, 10), step(2, 0.02), step(3, 0.9)])).toEqual({ atMost: null, cut: null });
  });
});
