// The list of runs while runs begin and end, searches change, and reads overtake each other.
import { Signal } from '@lumino/signaling';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { HubModel } from '../src/model/hub';
import type { Notice } from '../src/model/notice';
import { runValuesOf, RunValuesModel } from '../src/model/run_values';
import { RunsModel } from '../src/model/runs_model';
import { FakeServer, page, record, settled } from './fake_server';

class FakeHub implements Pick<HubModel, 'isConnected' | 'noticed' | 'labelled'> {
  isConnected = true;
  readonly noticed = new Signal<HubModel, Notice>(this as unknown as HubModel);
  readonly labelled = new Signal<HubModel, string>(this as unknown as HubModel);

  notice(run: string, state: string): void {
    this.noticed.emit({ type: 'run_notice', kernel: 'k', run, state, cell_id: null, ranks: '0', seconds: null, fault: null });
  }
}

let server: FakeServer;
let hub: FakeHub;
let model: RunsModel;
const ids = (): string[] => model.runs.map(({ run }) => run);
const stateOf = (run: string): string | undefined => model.runs.find((one) => one.run === run)?.state;
const HEAD = 'runs  null 50';

beforeEach(() => {
  vi.useFakeTimers();
  server = new FakeServer();
  hub = new FakeHub();
  model = new RunsModel(server, hub);
});

/** Have the list watched, with a first page of 50 runs, r100 to r51. */
async function watched(): Promise<void> {
  model.watch();
  vi.advanceTimersByTime(0);
  await server.answer(HEAD, page(100, 51, 'r51'));
}

describe('the list of runs', () => {
  it('reads nothing before somebody looks, and nothing more when nobody does', async () => {
    hub.notice('r1', 'finished');
    vi.advanceTimersByTime(5000);
    expect([server.waiting, model.status]).toEqual([[], 'unread']);
    await watched();
    expect([model.runs.length, model.status, server.waiting]).toEqual([50, 'read', []]);
    model.rest();
    hub.notice('r101', 'running');
    vi.advanceTimersByTime(5000);
    expect(server.waiting).toEqual([]);
  });

  it('joins a new run above what was read before, and says how many came', async () => {
    await watched();
    const added: number[] = [];
    model.changed.connect((_, count) => added.push(count));
    hub.notice('r101', 'running');
    vi.advanceTimersByTime(0);
    await server.answer(HEAD, page(101, 52, 'r52'));
    expect([ids()[0], model.runs.length, added]).toEqual(['r101', 51, [1]]);
    // Its folder has its description a while later.
    vi.advanceTimersByTime(1501);
    expect(server.waiting).toEqual([HEAD]);
  });

  it('applies a notice though the read that took it was overtaken', async () => {
    await watched();
    await more('r51', page(50, 1));
    hub.notice('r7', 'stalled');
    vi.advanceTimersByTime(0);
    await server.answer(HEAD, page(100, 51, 'r51'));
    expect(server.waiting).toEqual(['runOrNull r7']);
    // A second read begins before the first one has its last answer.
    hub.notice('r8', 'failed');
    vi.advanceTimersByTime(0);
    await server.answer('runOrNull r7', record('r7', 'a state that is old by now'));
    expect(stateOf('r7')).toBe('finished');
    await server.answer(HEAD, page(100, 51, 'r51'));
    expect(server.waiting).toEqual(['runOrNull r8', 'runOrNull r7']);
    await server.answer('runOrNull r8', record('r8', 'failed'));
    await server.answer('runOrNull r7', record('r7', 'stalled'));
    expect([stateOf('r7'), stateOf('r8')]).toEqual(['stalled', 'failed']);
    // Both are applied, and not read again.
    hub.notice('r101', 'finished');
    vi.advanceTimersByTime(0);
    await server.answer(HEAD, page(101, 52, 'r52'));
    expect([server.waiting, model.runs.length]).toEqual([[], 101]);
  });

  it('applies a notice that comes while its read is under way with the next one', async () => {
    await watched();
    await more('r51', page(50, 1));
    hub.notice('r7', 'stalled');
    vi.advanceTimersByTime(0);
    await server.answer(HEAD, page(100, 51, 'r51'));
    // After the read asked which runs have one.
    model.rest();
    hub.notice('r8', 'failed');
    await server.answer('runOrNull r7', record('r7', 'stalled'));
    model.watch();
    vi.advanceTimersByTime(0);
    await server.answer(HEAD, page(100, 51, 'r51'));
    expect(server.waiting).toEqual(['runOrNull r8']);
  });

  it('takes a run away that was deleted meanwhile', async () => {
    await watched();
    await more('r51', page(50, 1));
    hub.notice('r7', 'finished');
    vi.advanceTimersByTime(0);
    await server.answer(HEAD, page(100, 51, 'r51'));
    await server.answer('runOrNull r7', null);
    expect([model.runs.length, stateOf('r7')]).toEqual([99, undefined]);
  });

  it('drops what an overtaken search brings', async () => {
    await watched();
    model.searchFor('a');
    vi.advanceTimersByTime(0);
    model.searchFor(' ab ');
    vi.advanceTimersByTime(0);
    expect(server.waiting).toEqual(['runs a null 50', 'runs ab null 50']);
    await server.answer('runs ab null 50', page(3, 3));
    await server.answer('runs a null 50', page(90, 41, 'r41'));
    expect([ids(), model.search]).toEqual([['r3'], 'ab']);
  });

  it('waits for the end of typing', () => {
    model.watch();
    model.searchFor('a', 200);
    vi.advanceTimersByTime(199);
    model.searchFor('ab', 200);
    vi.advanceTimersByTime(199);
    expect(server.waiting).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(server.waiting).toEqual(['runs ab null 50']);
  });

  it('reads on from a head that does not reach what is there', async () => {
    await watched();
    hub.notice('r180', 'finished');
    vi.advanceTimersByTime(0);
    await server.answer(HEAD, page(180, 131, 'r131'));
    await server.answer('runs  r131 50', page(130, 81, 'r81'));
    expect([ids()[0], ids().at(-1), model.runs.length]).toEqual(['r180', 'r51', 130]);
  });
});

async function more(before: string, found: object): Promise<void> {
  void model.readMore();
  await server.answer(`runs  ${before} 50`, found);
}

describe('the next page', () => {
  it('is asked for again, for whoever is at the end, where the list was read anew meanwhile', async () => {
    await watched();
    model.isAtEnd = () => true;
    void model.readMore();
    expect(server.waiting).toEqual(['runs  r51 50']);
    hub.notice('r101', 'finished');
    vi.advanceTimersByTime(0);
    await server.answer(HEAD, page(101, 52, 'r52'));
    await server.answer('runs  r51 50', page(50, 1));
    expect(model.runs.length).toBe(51);
    await server.answer('runs  r51 50', page(50, 1));
    expect([model.runs.length, server.waiting]).toEqual([101, []]);
  });

  it('is not asked for again where the end is out of sight', async () => {
    await watched();
    void model.readMore();
    hub.notice('r101', 'finished');
    vi.advanceTimersByTime(0);
    await server.answer(HEAD, page(101, 52, 'r52'));
    await server.answer('runs  r51 50', page(50, 1));
    expect([model.runs.length, server.waiting]).toEqual([51, []]);
  });

  it('comes by itself while the list is too short to be scrolled', async () => {
    model.watch();
    vi.advanceTimersByTime(0);
    await server.answer(HEAD, page(100, 98, 'r50'));
    await server.answer('runs  r50 50', page(49, 48, null));
    expect([model.runs.length, server.waiting]).toEqual([5, []]);
  });

  it('that cannot be read is not asked for on and on', async () => {
    await watched();
    model.isAtEnd = () => true;
    void model.readMore();
    await server.refuse('runs  r51 50', 'The disk is gone.');
    expect([model.status, model.problem, server.waiting]).toEqual(['failed', 'The disk is gone.', []]);
  });
});

describe('a connection that is lost', () => {
  it('leaves the list as it was, and what was asked before changes nothing', async () => {
    await watched();
    hub.notice('r101', 'finished');
    vi.advanceTimersByTime(0);
    hub.isConnected = false;
    server.opened.emit(false);
    await server.refuse(HEAD, 'The connection was lost.');
    expect([model.status, model.problem, model.runs.length]).toEqual(['stale', '', 50]);
    hub.isConnected = true;
    server.opened.emit(true);
    vi.advanceTimersByTime(0);
    await server.answer(HEAD, page(101, 52, 'r52'));
    expect([model.status, model.runs.length]).toEqual(['read', 51]);
  });
});

describe('runs that are chosen', () => {
  it('are deleted, but for those that cannot be, which stay chosen', async () => {
    await watched();
    for (const run of ['r100', 'r99', 'r98']) {
      model.choose(run, true);
    }
    model.choose('r97', true);
    model.choose('r97', false);
    const removing = model.remove([...model.chosen]);
    await server.answer('runOrNull r100', record('r100'));
    await server.answer('deleteRun r100', undefined);
    // Another page was faster.
    await server.answer('runOrNull r99', null);
    await server.answer('runOrNull r98', record('r98', 'running'));
    await server.refuse('deleteRun r98', 'A run that goes on must not be deleted.');
    await server.answer(HEAD, page(98, 51, 'r51'));
    await removing;
    await settled();
    expect([[...model.chosen], ids()[0]]).toEqual([['r98'], 'r98']);
    expect([model.status, model.problem]).toEqual(['failed', 'A run that goes on must not be deleted.']);
  });
});

describe('labels that another page has changed', () => {
  it('are read, wherever in the list the run is', async () => {
    await watched();
    await more('r51', page(50, 1));
    hub.labelled.emit('r7');
    vi.advanceTimersByTime(0);
    await server.answer(HEAD, page(100, 51, 'r51'));
    await server.answer('runOrNull r7', { ...record('r7'), name: 'small batch' });
    expect(model.runs.find(({ run }) => run === 'r7')?.name).toBe('small batch');
    expect(model.runs.length).toBe(100);
  });

  it('bring a run to what is searched for, and take it from there, with as many runs as there were', async () => {
    await watched();
    model.searchFor('tag:paper');
    vi.advanceTimersByTime(0);
    await server.answer('runs tag:paper null 50', page(100, 51, 'r51'));
    void model.readMore();
    await server.answer('runs tag:paper r51 50', page(50, 41, 'r41'));
    expect(model.runs.length).toBe(60);
    hub.labelled.emit('r45');
    vi.advanceTimersByTime(0);
    await server.answer('runs tag:paper null 50', page(100, 51, 'r51'));
    await server.answer('runs tag:paper r51 50', { ...page(50, 41), runs: page(50, 41).runs.filter(({ run }) => run !== 'r45') });
    expect([model.runs.length, ids().includes('r45')]).toEqual([59, false]);
  });
});

describe('what runs can be chosen by', () => {
  const told = (chosen: number): object => ({ total: 9, read: 9, chosen, values: { state: [['failed', 2]], tag: [['paper', 'x'], 3] } });

  it('is counted for what is searched for, each time the list is read', async () => {
    const values = new RunValuesModel(server, model);
    await watched();
    expect([values.counts, server.waiting]).toEqual([null, []]);
    model.searchFor('tag:paper');
    vi.advanceTimersByTime(0);
    await server.answer('runs tag:paper null 50', page(30, 1));
    await server.answer('runValues tag:paper', runValuesOf(told(2)));
    expect([values.counts?.chosen, values.counts?.total]).toEqual([2, 9]);
    expect([values.values?.state, values.values?.tag, values.values?.model]).toEqual([[['failed', 2]], [], []]);
    model.searchFor('');
    vi.advanceTimersByTime(0);
    await server.answer(HEAD, page(100, 51, 'r51'));
    expect([values.counts, server.waiting]).toEqual([null, []]);
  });

  it('leaves it to the list to say what is wrong with the server', async () => {
    const values = new RunValuesModel(server, model);
    const asked = values.read();
    await server.refuse('runValues ', 'no');
    expect([await asked, values.values]).toEqual([null, null]);
  });
});
