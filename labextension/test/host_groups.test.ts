// Ranks by host, and what is told of a device's and a host's links.
import { describe, expect, it } from 'vitest';
import { Feed } from '../src/model/feed';
import { Figures } from '../src/model/figures';
import { byHost, headingParts, isHeading } from '../src/model/host_groups';
import { deviceText, hostText } from '../src/model/links';
import fixture from '../schema/events.fixture.json';
import { parseEvent } from '../src/model/parse';
import { ENGLISH } from '../src/model/words';

const rank = (number: number, host: string | null): { rank: number; host: string | null } => ({ rank: number, host });

describe('ranks by host', () => {
  const listed = (folded: string[], ...ranks: ReturnType<typeof rank>[]): unknown[] =>
    byHost(ranks, new Set(folded)).map((entry) => (isHeading(entry) ? `${entry.host}: ${entry.ranks.length}` : entry.rank));

  it('have a heading each, below it its ranks unless it is folded', () => {
    const ranks = [rank(0, 'b'), rank(1, 'a'), rank(2, 'b')];
    expect(listed([], ...ranks)).toEqual(['b: 2', 0, 2, 'a: 1', 1]);
    expect(listed(['b'], ...ranks)).toEqual(['b: 2', 'a: 1', 1]);
  });

  it('are a list where there is one host, or none is known', () => {
    expect(listed(['a'], rank(0, 'a'), rank(1, 'a'))).toEqual([0, 1]);
    expect(listed([], rank(0, null), rank(1, null))).toEqual([0, 1]);
  });

  it('of a thousand take no time that one sees', () => {
    const ranks = Array.from({ length: 1024 }, (_, at) => rank(at, `node${Math.floor(at / 8)}`));
    const began = performance.now();
    for (let turn = 0; turn < 20; turn++) {
      expect(byHost(ranks, new Set())).toHaveLength(1024 + 128);
    }
    expect((performance.now() - began) / 20).toBeLessThan(20);
  });

  it('say together how many there are, what they do, and what is wrong', () => {
    expect(headingParts(8, '1,234 /s', 'network ↓1 GB/s ↑2 GB/s', 2, ENGLISH)).toEqual(['8 ranks', '1,234 /s', 'network ↓1 GB/s ↑2 GB/s', '2 faults']);
    expect(headingParts(1, '', '', 0, ENGLISH)).toEqual(['1 rank']);
    expect(headingParts(1024, '', '', 0, ENGLISH)).toEqual(['1,024 ranks']);
  });

  it('come with the events of a run whose folder knows its hosts', () => {
    const feed = new Feed();
    const batch = {
      ...{ first: 0, next: 1, single: null, tables: [], hosts: { a: [0], b: [1, 'x'] } },
      events: [{ type: 'run_started', run: 'r', ranks: [0, 1], world_size: 2, at_s: 0 }],
    };
    feed.takeBatch(new DataView(new TextEncoder().encode(JSON.stringify(batch)).buffer));
    expect(feed.model.ranks.map(({ host }) => host)).toEqual(['a', 'b']);
  });
});

describe('links', () => {
  it('are told where they are known', () => {
    const known = fixture.find((example) => example.type === 'metrics' && example.gpu_watts != null);
    const figures = new Figures();
    const event = parseEvent(known);
    expect(event?.type).toBe('metrics');
    if (event?.type === 'metrics') {
      figures.take(event);
      expect(deviceText(figures)).toBe('311 W, 61 °C, NVLink ↓45 GB/s ↑44 GB/s');
      expect(hostText(figures, ENGLISH)).toBe('network ↓1.25 GB/s ↑1.2 GB/s, InfiniBand ↓24 GB/s ↑23.5 GB/s');
      figures.take({ ...event, gpu_watts: null, nvlink_sent_bytes_per_s: null, network_sent_bytes_per_s: null, fabric_sent_bytes_per_s: null });
      expect([deviceText(figures), hostText(figures, ENGLISH), deviceText(null), hostText(null, ENGLISH)]).toEqual(['61 °C', '', '', '']);
    }
  });
});
