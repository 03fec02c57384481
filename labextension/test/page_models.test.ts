// What pages and the sidebar read, each by a model: no page is there, and the server answers when the test lets it.
import { beforeEach, describe, expect, it } from 'vitest';
import { ComparisonModel } from '../src/model/comparison';
import { HubModel } from '../src/model/hub';
import type { KernelState } from '../src/model/hub_messages';
import { ASK_EVERY_MS, JobsModel } from '../src/model/jobs_model';
import { KeptModel } from '../src/model/kept_model';
import { LiveRuns } from '../src/model/live';
import { LogModel } from '../src/model/log_model';
import type { LinesPage, LogLine } from '../src/model/log_window';
import { RoomModel } from '../src/model/room';
import { factsOf } from '../src/model/run_facts';
import { ReportModel } from '../src/model/report_model';
import { RunDetailsModel } from '../src/model/run_details';
import { StacksModel } from '../src/model/stacks_model';
import { FakeServer, record } from './fake_server';

const KERNEL: KernelState = {
  type: 'kernel_state',
  kernel: 'k',
  pid: 1,
  cluster: { name: 'first', state: 'idle', note: '', step: null, world_size: 1, ranks: [], ends_at_s: null, idle_ends_at_s: null, keeps_variables: false, job: null, held: null },
  run: null,
  fault: null,
  whole_notebook: false,
};
const stacks = (host: string): object => ({ ranks: [{ rank: 0, host, threads: [], note: 'asleep' }] });

let server: FakeServer;
let hub: HubModel;

beforeEach(() => {
  server = new FakeServer();
  hub = new HubModel();
  hub.connect(true);
});

function count(signal: { connect(slot: () => void): unknown }): { value: number } {
  const counted = { value: 0 };
  signal.connect(() => void counted.value++);
  return counted;
}

describe('the file for support', () => {
  const made = (part: string): object => ({ file: 'r.zip', parts: [{ name: part, bytes: 1, note: '' }], zip: '' });

  it('is the one of the newest choice, whichever comes first', async () => {
    const model = new ReportModel(server, 'r');
    void model.read(false);
    void model.read(true);
    expect(model.report).toBeNull();
    await server.answer('report r true', made('cell.py'));
    await server.answer('report r false', made('run.json'));
    expect(model.report?.parts.map(({ name }) => name)).toEqual(['cell.py']);
    void model.read(false);
    expect(model.report).toBeNull();
    await server.refuse('report r false', 'There is no run r.');
    expect([model.report, model.problem]).toEqual([null, 'There is no run r.']);
  });
});

describe('the page of a run', () => {
  it('has its labels, also once another page has changed them', async () => {
    const model = new RunDetailsModel(server, 'r', hub);
    void model.read();
    await server.answer('run r', { record: record('r'), cell: '' });
    hub.handle({ type: 'run_labelled', run: 'another' });
    hub.handle({ type: 'run_labelled', run: 'r' });
    await server.answer('run r', { record: { ...record('r'), name: 'small batch' }, cell: '' });
    expect([model.record?.name, server.waiting]).toEqual(['small batch', []]);
    model.dispose();
    hub.handle({ type: 'run_labelled', run: 'r' });
    expect(server.waiting).toEqual([]);
  });

  it('has its cell, and what its ranks wrote', async () => {
    const model = new RunDetailsModel(server, 'r', hub);
    const changes = count(model.changed);
    void model.read();
    await server.answer('run r', { record: record('r'), cell: 'x = 1' });
    void model.readLogSize();
    await server.answer('logSizes r', [{ rank: 0, bytes: 5 }, { rank: 1, bytes: 7 }]);
    expect([model.cell, model.problem, model.logBytes, changes.value]).toEqual(['x = 1', '', 12, 2]);
  });

  it('says what is wrong with the run, and leaves the logs to their own page', async () => {
    const model = new RunDetailsModel(server, 'r', hub);
    void model.read();
    await server.refuse('run r', 'There is no run r.');
    void model.readLogSize();
    await server.refuse('logSizes r', 'There is no run r.');
    expect([model.cell, model.problem, model.logBytes]).toEqual(['', 'There is no run r.', null]);
  });
});

describe('runs that are compared', () => {
  const details = (run: string, name: string | null = null) => ({ record: { ...record(run), name }, cell: '', facts: factsOf({}) });
  const quiet = { watch: () => undefined, unwatch: () => undefined, taken: () => undefined };

  it('have their records, and their events while they are shown', async () => {
    const sent: string[] = [];
    const wire = {
      watch: (run: string) => void sent.push(`watch ${run}`),
      unwatch: (run: string) => void sent.push(`unwatch ${run}`),
      taken: () => undefined,
    };
    const model = new ComparisonModel(server, new LiveRuns(wire), ['a', 'b', 'c']);
    expect(model.lives).toEqual([]);
    model.watch();
    model.watch();
    model.rest();
    model.rest();
    expect(sent).toEqual(['watch a', 'watch b', 'watch c', 'unwatch a', 'unwatch b', 'unwatch c']);
    const lives = model.lives;
    model.watch();
    expect(model.lives).toEqual(lives);
    void model.read();
    await server.answer('run b', details('b'));
    await server.answer('run c', details('c'));
    expect(model.details).toEqual([null, null, null]);
    await server.answer('run a', details('a'));
    expect(model.details.map((one) => one?.record.run)).toEqual(['a', 'b', 'c']);
  });

  it('are shown though one of them is gone', async () => {
    const model = new ComparisonModel(server, new LiveRuns(quiet), ['a', 'b']);
    const changes = count(model.changed);
    void model.read();
    await server.refuse('run b', 'There is no run b.');
    await server.answer('run a', details('a'));
    expect([model.problem, changes.value]).toEqual(['There is no run b.', 1]);
    expect(model.details.map((one) => one?.record.run)).toEqual(['a', undefined]);
  });

  it('have names that tell them apart', async () => {
    const model = new ComparisonModel(server, new LiveRuns(quiet), ['a', 'b', 'c', 'd']);
    void model.read();
    await server.answer('run a', details('a', 'same'));
    await server.answer('run b', details('b', 'same'));
    await server.answer('run c', details('c', 'other'));
    await server.answer('run d', details('d'));
    expect(model.names).toEqual(['same a', 'same b', 'other', 'd']);
  });
});

describe('stacks', () => {
  it('are asked for when the kernel is there, and then only when somebody wishes', async () => {
    const model = new StacksModel(server, hub, 'k');
    await model.look();
    expect([model.status, server.waiting]).toEqual(['waiting', []]);
    hub.handle(KERNEL);
    expect([model.status, model.name, server.waiting]).toEqual(['asking', 'first', ['control k stacks']]);
    await server.answer('control k stacks', stacks('host-a'));
    expect([model.status, model.places.map(({ hosts }) => hosts[0])]).toEqual(['read', ['host-a']]);
    hub.handle(KERNEL);
    expect(server.waiting).toEqual([]);
  });

  it('of an earlier look do not replace those of a later one', async () => {
    hub.handle(KERNEL);
    const model = new StacksModel(server, hub, 'k');
    const changes = count(model.changed);
    void model.look();
    void model.look();
    const [first, second] = ['host-old', 'host-new'];
    // The server answers in any order; here the newer question first.
    await server.answerLast('control k stacks', stacks(second));
    await server.answer('control k stacks', stacks(first));
    expect([model.status, model.places[0]?.hosts, changes.value]).toEqual(['read', ['host-new'], 3]);
  });

  it('that cannot be had say why, and a page that is closed asks no more', async () => {
    hub.handle(KERNEL);
    const model = new StacksModel(server, hub, 'k');
    void model.look();
    await server.refuse('control k stacks', 'The kernel is gone.');
    expect([model.status, model.problem]).toEqual(['failed', 'The kernel is gone.']);
    const closed = new StacksModel(server, hub, 'k');
    closed.dispose();
    hub.handle(KERNEL);
    expect([closed.status, server.waiting]).toEqual(['waiting', []]);
  });
});

describe('kept clusters', () => {
  const kept = (name: string): object => ({ name, world_size: 2, devices: [], start_s: 1 });

  it('are those that no kernel has, and none while the server does not answer', async () => {
    const model = new KeptModel(server, hub);
    void model.read();
    await server.answer('keptClusters', [kept('first'), kept('second')]);
    expect([model.names, model.shown.length]).toEqual([['first', 'second'], 2]);
    hub.handle(KERNEL);
    expect(model.shown.map(({ name }) => name)).toEqual(['second']);
    hub.connect(false);
    expect(model.shown).toEqual([]);
  });

  it('of an overtaken read are dropped, and are read again when the connection is back and somebody looks', async () => {
    const model = new KeptModel(server, hub);
    void model.read();
    void model.read();
    await server.answerLast('keptClusters', [kept('new')]);
    await server.answer('keptClusters', [kept('old')]);
    expect(model.names).toEqual(['new']);
    server.opened.emit(true);
    expect(server.waiting).toEqual([]);
    model.isWatched = true;
    server.opened.emit(true);
    await server.refuse('keptClusters', 'no');
    expect(model.names).toEqual([]);
  });

  it('are read again after one was stopped, also where that failed', async () => {
    const model = new KeptModel(server, hub);
    const stopped = model.stop('first').catch((error: unknown) => String(error));
    await server.refuse('stopCluster first', 'It has a kernel.');
    await server.answer('keptClusters', [kept('first')]);
    expect([await stopped, model.names]).toEqual(['Error: It has a kernel.', ['first']]);
  });
});

describe('batch jobs', () => {
  const job = (number: string, name: string): object => ({ job: number, title: `Slurm job ${number}`, name, state: 'waiting', text: '' });
  const titles = (model: JobsModel): string[] => model.shown.map(({ title }) => title);

  it('are those that no kernel waits for or uses and that are not shown as kept', async () => {
    const model = new JobsModel(server, hub, { names: ['kept'] });
    void model.read(0);
    await server.answer('jobs', [job('12', 'a'), job('13', 'kept'), job('14', 'b')]);
    expect(titles(model)).toEqual(['Slurm job 12', 'Slurm job 14']);
    hub.handle({ ...KERNEL, cluster: { ...KERNEL.cluster!, job: 'Slurm job 12' } });
    expect(titles(model)).toEqual(['Slurm job 14']);
    hub.connect(false);
    expect(titles(model)).toEqual([]);
  });

  it('are asked for by one question at a time, and not too often', async () => {
    const model = new JobsModel(server, hub, { names: [] });
    void model.read(0);
    void model.read(ASK_EVERY_MS);
    expect(server.waiting).toEqual(['jobs']);
    await server.answer('jobs', [job('12', 'a')]);
    void model.read(ASK_EVERY_MS - 1);
    expect(server.waiting).toEqual([]);
    void model.read(ASK_EVERY_MS);
    await server.refuse('jobs', 'Slurm does not answer.');
    expect([titles(model), model.problem]).toEqual([[], 'Slurm does not answer.']);
    void model.read(2 * ASK_EVERY_MS);
    await server.answer('jobs', []);
    expect(model.problem).toBe('');
  });

  it('leave the list once they were ended, and stay where that failed', async () => {
    const model = new JobsModel(server, hub, { names: [] });
    void model.read(0);
    await server.answer('jobs', [job('12', 'a')]);
    const refused = model.end('12').catch((error: unknown) => String(error));
    await server.refuse('endJob 12', 'It is not yours.');
    expect([await refused, titles(model)]).toEqual(['Error: It is not yours.', ['Slurm job 12']]);
    void model.end('12');
    await server.answer('endJob 12', null);
    expect(titles(model)).toEqual([]);
  });
});

describe('what ranks may have', () => {
  const device = { index: 0, name: 'H200', uuid: 'u', device: '0', total_bytes: 2, free_bytes: 1 };

  it('is read anew, and without devices where they cannot be read', async () => {
    const model = new RoomModel(server);
    const changes = count(model.changed);
    void model.read();
    await server.answer('devices', [device]);
    await server.answer('hostRoom', { cores: 4, free_bytes: 9 });
    await server.answer('places', [{ title: 'Slurm job' }]);
    expect([model.devices, model.host?.cores, model.places.length, model.problem, changes.value]).toEqual([[device], 4, 1, '', 1]);
    void model.read();
    await server.refuse('devices', 'no driver');
    await server.refuse('hostRoom', 'no host');
    await server.refuse('places', 'a.toml has no such key.');
    expect([model.devices, model.host?.cores, model.places, model.problem]).toEqual([[], 4, [], 'a.toml has no such key.']);
  });
});

describe('a log', () => {
  const sizes = [{ rank: 1, bytes: 10 }, { rank: 3, bytes: 10 }];
  const line = (rank: number, text: string, place: string): LogLine => ({ rank, number: 1, text, place, atUs: 0 });
  const part = (lines: LogLine[], begin: string, next: string, more: Partial<LinesPage> = {}): LinesPage => ({
    ...{ lines, begin, next, atStart: true, atEnd: true, unfinished: [], beginShare: 0, nextShare: 1, bytes: 20, timed: null },
    ...more,
  });
  const x = { text: 'x', isExpression: false, isExact: false };

  it('is of the rank that was asked for last, in whatever order the lists come', async () => {
    const model = new LogModel(server, 'r', 0);
    void model.readSizes();
    model.choose(3);
    void model.readSizes();
    await server.answerLast('logSizes r', sizes);
    await server.answer('logSizes r', sizes);
    expect(model.rank).toBe(3);
    // One that wrote nothing has none.
    model.choose(2);
    expect(model.rank).toBe(1);
    model.choose(null);
    expect(model.rank).toBeNull();
  });

  it('that was opened meanwhile drops what was read of the one before', async () => {
    const model = new LogModel(server, 'r', 1);
    const before = model.toEnd();
    model.open(true);
    const after = model.toEnd();
    await server.answer('lines r 1 end', part([line(1, 'a', '0')], '0', '2'));
    await server.answer('lines r 1 stderr end', part([line(1, 'c', '0')], '0', '2'));
    expect([await before, await after, model.log.line(0)?.text]).toEqual([false, true, 'c']);
  });

  it('asks for what is left of it, and goes on until there is enough or all was looked at', async () => {
    const model = new LogModel(server, 'r', null);
    const looked: number[] = [];
    model.looked.connect((_, share) => looked.push(share));
    model.open(false, { text: 'a.c', isExpression: true, isExact: true });
    expect(model.isFiltered).toBe(true);
    const opened = model.toEnd();
    const ask = 'lines r all /a.c/ regex case';
    await server.answer(`${ask} end`, part([line(2, 'abc', '7')], '5', '9', { atStart: false, beginShare: 0.75 }));
    await server.answer(`${ask} before 5`, part([], '2', '5', { atStart: false, beginShare: 0.25 }));
    await server.answer(`${ask} before 2`, part([line(0, 'aXc', '1')], '0', '2'));
    expect([await opened, looked, model.log.length, model.log.line(0)?.rank]).toEqual([true, [0.25, 0.75], 2, 0]);
    const more = model.log.forward();
    await server.answer(`${ask} after 9`, part([], '9', '11', { atEnd: false, nextShare: 0.9 }));
    await server.answer(`${ask} after 11`, part([line(2, 'a c', '12')], '11', '14'));
    expect([await more, model.log.line(2)?.text]).toEqual([0, 'a c']);
  });

  it('is searched part by part, both ways, from the line that was found, until another is opened', async () => {
    const model = new LogModel(server, 'r', 1);
    const looked: number[] = [];
    model.looked.connect((_, share) => looked.push(share));
    const first = model.search(x, 'next');
    await server.answer('lines r 1 /x/ after start most 1', part([], '0', '40', { atEnd: false, nextShare: 0.4 }));
    await server.answer('lines r 1 /x/ after 40 most 1', part([line(1, 'x', '50')], '40', '55', { atEnd: false }));
    // Where it stands, and what precedes it.
    await server.answer('lines r 1 after 50', part([line(1, 'x', '50')], '50', '52', { atStart: false }));
    await server.answer('lines r 1 before 50', part([line(1, 'a', '47'), line(1, 'b', '48')], '0', '50'));
    expect([await first, looked, model.found, model.log.line(2)?.text]).toEqual([2, [0.4], '50', 'x']);
    const second = model.search(x, 'next');
    await server.answer('lines r 1 /x/ after 50+ most 1', part([], '50', '99'));
    expect([await second, model.found]).toEqual(['absent', null]);
    const third = model.search('error', 'previous');
    await server.answer('lines r 1 errors end most 1', part([line(1, 'E', '60')], '60', '99'));
    await server.answer('lines r 1 after 60', part([line(1, 'E', '60')], '60', '62'));
    await server.answer('lines r 1 before 60', part([], '0', '60'));
    expect(await third).toBe(0);
    const fourth = model.search('error', 'previous');
    model.open(false);
    await server.answer('lines r 1 errors before 60 most 1', part([line(1, 'E', '30')], '30', '60'));
    expect(await fourth).toBe('overtaken');
    void model.search(x, 'next');
    expect(server.waiting).toEqual(['lines r 1 /x/ after start most 1']);
  });
});
