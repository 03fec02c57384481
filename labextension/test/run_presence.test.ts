// Whether a server has a run: asked once, whatever is rendered again.
import { Signal } from '@lumino/signaling';
import { describe, expect, it } from 'vitest';
import type { HubModel } from '../src/model/hub';
import type { Notice } from '../src/model/notice';
import { RunPresence, RunPresences } from '../src/model/run_presence';
import { FakeServer, record, settled } from './fake_server';

const RUN = 'r1';

function made(): { server: FakeServer; presence: RunPresence; notice: (run: string) => void; outdated: () => number } {
  const server = new FakeServer();
  const noticed = new Signal<object, Notice>({});
  const presence = new RunPresence(server, { noticed } as unknown as HubModel, RUN);
  let count = 0;
  presence.outdated.connect(() => void count++);
  const notice = (run: string): void => noticed.emit({ type: 'run_notice', kernel: 'k', run, state: 'finished', cell_id: null, ranks: '0-1', seconds: 1, fault: null });
  return { server, presence, notice, outdated: () => count };
}

describe('a run of this server', () => {
  it('is asked for once, and the answer stays', async () => {
    const { server, presence, notice, outdated } = made();
    const answers = [presence.isThere(), presence.isThere()];
    expect(server.waiting).toEqual(['runOrNull r1']);
    await server.answer('runOrNull r1', record(RUN));
    notice(RUN);
    server.opened.emit(true);
    expect(await Promise.all([...answers, presence.isThere()])).toEqual([true, true, true]);
    expect([server.waiting, outdated()]).toEqual([[], 0]);
  });
});

describe('a run that this server does not have', () => {
  it('is asked for once', async () => {
    const { server, presence, notice, outdated } = made();
    const answer = presence.isThere();
    await server.answer('runOrNull r1', null);
    notice('r2');
    server.opened.emit(false);
    expect([await answer, await presence.isThere(), server.waiting, outdated()]).toEqual([false, false, [], 0]);
  });

  it.each([
    ['the hub has something to tell of it', (one: ReturnType<typeof made>): void => one.notice(RUN)],
    ['the server is back', (one: ReturnType<typeof made>): void => one.server.opened.emit(true)],
  ])('is asked for again when %s', async (_, happens) => {
    const one = made();
    const answer = one.presence.isThere();
    await one.server.refuse('runOrNull r1', 'gone');
    expect(await answer).toBe(false);
    happens(one);
    const again = one.presence.isThere();
    await one.server.answer('runOrNull r1', record(RUN));
    expect([await again, one.outdated()]).toEqual([true, 1]);
  });

  it('is asked for no more when its output is gone', async () => {
    const { server, presence, notice, outdated } = made();
    void presence.isThere();
    await server.answer('runOrNull r1', null);
    presence.dispose();
    notice(RUN);
    await settled();
    expect([outdated(), server.waiting]).toEqual([0, []]);
  });
});

describe('the outputs of a notebook', () => {
  it('share the answer that a run is not there, and ask for one that was there', async () => {
    const server = new FakeServer();
    const presences = new RunPresences(server, { noticed: new Signal<object, Notice>({}) } as unknown as HubModel);
    for (const [run, found, again] of [['r1', null, []], ['r2', record('r2'), ['runOrNull r2']]] as const) {
      const first = presences.of(run).isThere();
      await server.answer(`runOrNull ${run}`, found);
      void presences.of(run).isThere();
      expect([await first, server.waiting]).toEqual([found !== null, again]);
    }
  });
});
