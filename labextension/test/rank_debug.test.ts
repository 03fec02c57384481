import { describe, expect, it } from 'vitest';
import { firstLine, RankDebug } from '../src/model/rank_debug';
import { FakeServer, settled } from './fake_server';

function made(): { server: FakeServer; debug: RankDebug; told: unknown[]; ends: string[] } {
  const server = new FakeServer();
  const told: unknown[] = [];
  const ends: string[] = [];
  const debug = new RankDebug(server, 'k', 1, (event) => told.push(event), (why) => ends.push(why));
  return { server, debug, told, ends };
}

/** Answer the request for events that waits. */
async function tell(server: FakeServer, events: readonly unknown[], after: number, isStarted = true): Promise<void> {
  await server.answer(server.waiting[0]!, { success: true, body: { events, after, isStarted } });
}

async function followed(): Promise<ReturnType<typeof made>> {
  const all = made();
  void all.debug.request({ command: 'initialize', seq: 1 });
  await all.server.answer(all.server.waiting[0]!, { success: true, body: {} });
  await tell(all.server, [], 3);
  return all;
}

describe('a debugger of a rank', () => {
  it('tells of the events that come after it has begun, each once, and in their order', async () => {
    const { server, told, ends } = await followed();
    expect(server.waiting).toHaveLength(1);
    await tell(server, [{ event: 'stopped' }], 4);
    await tell(server, [{ event: 'continued' }, { event: 'stopped' }], 6);
    expect(told).toEqual([{ event: 'stopped' }, { event: 'continued' }, { event: 'stopped' }]);
    expect(ends).toEqual([]);
    expect(server.waiting).toHaveLength(1);
  });

  it('ends when the rank is not debugged any more, or does not answer', async () => {
    const gone = await followed();
    await tell(gone.server, [], 3, false);
    expect(gone.ends).toEqual(['']);
    expect(gone.server.waiting).toEqual([]);
    const lost = await followed();
    await lost.server.refuse(lost.server.waiting[0]!, 'The rank has ended.');
    expect(lost.ends).toEqual(['The rank has ended.']);
    expect(lost.debug.isOver).toBe(true);
  });

  it('ends when the user ends it, and tells of it once', async () => {
    const { server, debug, ends } = await followed();
    const answer = debug.request({ command: 'disconnect', seq: 9 });
    await tell(server, [], 3);
    await server.answer(server.waiting[0]!, { success: true, body: {} });
    await answer;
    await tell(server, [], 3, false);
    expect(ends).toEqual(['']);
  });

  it('asks for variables once at a time, and answers a request that fails with why', async () => {
    const { server, debug } = made();
    const first = debug.request({ command: 'inspectVariables', seq: 1 });
    expect(debug.request({ command: 'inspectVariables', seq: 2 })).toBe(first);
    expect(server.waiting).toHaveLength(1);
    await server.refuse(server.waiting[0]!, 'no answer');
    expect(await first).toMatchObject({ success: false, message: 'no answer', body: {} });
    void debug.request({ command: 'inspectVariables', seq: 3 });
    await settled();
    expect(server.waiting).toHaveLength(1);
  });
});

it.each([
  ['%%distributed\n# A comment.\n\nfirst = 1', 4],
  ['a = 1', 1],
  ['%%distributed\n', 0],
])('the first line that can be held: %j', (source, line) => {
  expect(firstLine(source)).toBe(line);
});
