import { deflateSync } from 'node:zlib';
import { describe, expect, it, vi } from 'vitest';
import { KernelFeed } from '../src/model/kernel_feed';

/** Lines of a run, one an event, from number `first` on. */
function lines(first: number, next: number): Uint8Array<ArrayBuffer> {
  const events = Array.from({ length: next - first }, (_, at) => ({ type: 'output', run: 'r', rank: 0, stream: 'stdout', text: `${first + at}\n` }));
  return new TextEncoder().encode(JSON.stringify({ first, next, single: null, tables: [], events }));
}

const batch = (first: number, next: number): DataView => {
  const bytes = new Uint8Array(deflateSync(lines(first, next)));
  return new DataView(bytes.buffer);
};
const history = (next: number): DataView => batch(0, next);

function made(): { feed: KernelFeed; changed: () => number; asked: () => number; texts: () => string[] } {
  let [changes, questions] = [0, 0];
  const feed = new KernelFeed(() => changes++, () => questions++);
  const texts = (): string[] => Array.from({ length: feed.model.logs.end }, (_, at) => feed.model.logs.line(at)!.text);
  return { feed, changed: () => changes, asked: () => questions, texts };
}

const upTo = (end: number): string[] => Array.from({ length: end }, (_, at) => String(at));

describe('KernelFeed', () => {
  it('unpacks nothing while no view shows the run, and has every event for the first that does', async () => {
    const { feed, changed, asked, texts } = made();
    feed.takeHistory(history(2));
    const parse = vi.spyOn(JSON, 'parse');
    feed.takeBatch(batch(2, 3));
    feed.takeBatch(batch(3, 5));
    await Promise.resolve();
    expect([parse.mock.calls.length, changed(), texts()]).toEqual([0, 0, []]);
    parse.mockRestore();
    feed.view(true);
    await vi.waitFor(() => expect(texts()).toEqual(upTo(5)));
    feed.takeBatch(batch(5, 6));
    await vi.waitFor(() => expect(texts()).toEqual(upTo(6)));
    expect(asked()).toBe(0);
  });

  it('continues where its last view ended, with batches or with a history of what came meanwhile', async () => {
    const { feed, asked, texts } = made();
    feed.view(true);
    feed.takeBatch(batch(0, 2));
    await vi.waitFor(() => expect(texts()).toEqual(upTo(2)));
    feed.view(false);
    feed.takeBatch(batch(2, 3));
    feed.view(true);
    await vi.waitFor(() => expect(texts()).toEqual(upTo(3)));
    feed.view(false);
    feed.takeBatch(batch(3, 4));
    feed.takeHistory(history(8));
    feed.takeBatch(batch(8, 9));
    feed.view(true);
    await vi.waitFor(() => expect(texts()).toEqual(upTo(9)));
    expect(asked()).toBe(0);
  });

  it('holds few batches without a view, and asks the kernel for what they lack', async () => {
    const { feed, asked, texts } = made();
    for (let at = 0; at < 100; at++) {
      feed.takeBatch(batch(at, at + 1));
    }
    feed.view(true);
    await vi.waitFor(() => expect(texts().at(-1)).toBe('99'));
    expect([texts().length < 100, asked()]).toEqual([true, 1]);
    feed.takeHistory(history(101));
    await vi.waitFor(() => expect(texts()).toEqual(upTo(101)));
  });
});
