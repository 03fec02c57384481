// All clusters: what is read of the server's answer, their order, which are idle, and what the page's model asks for.
import { describe, expect, it } from 'vitest';
import { type ClusterSummary, idleFor, keyOf, ordered, outcomesOf, overviewOf } from '../src/model/overview';
import { OverviewModel } from '../src/model/overview_model';
import { FakeServer } from './fake_server';

const WIRE = {
  ...{ id: 'h/a', user: 'alice', server: '', name: 'a', world_size: 2, devices: ['0', '1'], is_on_cores: false, hosts: ['n1'], job: null },
  ...{ start_s: 1e9, state: 'idle', idle_s: 3600, fault_kind: 'lost', fault_at_s: 2e9, is_elsewhere: false, keeps_variables: false },
};
const A = overviewOf({ clusters: [WIRE] }).clusters[0]!;
const RUNS: ClusterSummary = { ...A, id: 'h/b', name: 'b', user: 'bob', state: 'running', idle_s: null, world_size: 10, start_s: 2e9, fault_kind: null, fault_at_s: null };
const FAR: ClusterSummary = { ...A, id: 'g/c', name: 'c', is_elsewhere: true, idle_s: 90_000, devices: [], is_on_cores: true };

describe('what a server answers', () => {
  it('is read, and what is no cluster left out', () => {
    const broken = [null, 7, {}, { ...WIRE, state: 'dancing' }, { ...WIRE, world_size: '2' }, { ...WIRE, id: 3 }];
    expect(overviewOf({ clusters: [...broken, WIRE], has_jupyterhub: true })).toEqual({ clusters: [WIRE], problems: [], hasHub: true });
    expect(overviewOf('none')).toEqual({ clusters: [], problems: [], hasHub: false });
  });

  it('has no fault that this version does not know', () => {
    expect(overviewOf({ clusters: [{ ...WIRE, fault_kind: '<img>' }] }).clusters[0]?.fault_kind).toBeNull();
  });

  it('says which servers are not known', () => {
    const problems = [{ user: 'dave', server: '', reason: 'missing' }, { user: 'eve', reason: 'silent' }, { user: 'x', reason: 'y' }];
    expect(overviewOf({ clusters: [], problems }).problems).toEqual([problems[0], { ...problems[1], server: '' }]);
  });

  it('says what became of a stop', () => {
    expect([...outcomesOf({ a: 'stopped', b: 'used', c: 'burnt' })]).toEqual([['a', 'stopped'], ['b', 'used'], ['c', 'failed']]);
  });
});

describe('clusters', () => {
  it.each([
    ['idle', true, ['c', 'a', 'b']],
    ['idle', false, ['b', 'a', 'c']],
    ['user', false, ['c', 'a', 'b']],
    ['ranks', true, ['b', 'c', 'a']],
    ['since', false, ['c', 'a', 'b']],
    ['fault', true, ['c', 'a', 'b']],
    ['devices', false, ['c', 'a', 'b']],
  ] as const)('are ordered by %s, descending: %s', (by, isDescending, names) => {
    expect(ordered([A, RUNS, FAR], { by, isDescending }).map(({ name }) => name)).toEqual(names);
  });

  it('can be stopped where they are idle for long enough, and here', () => {
    expect(idleFor([A, RUNS, FAR], 3600)).toEqual([A]);
    expect(idleFor([A, RUNS, FAR], 3601)).toEqual([]);
  });
});

async function shown(): Promise<[FakeServer, OverviewModel]> {
  const server = new FakeServer();
  const model = new OverviewModel(server);
  void model.read();
  await server.answer('overview', { clusters: [A, RUNS], problems: [], hasHub: true });
  return [server, model];
}

describe('the page', () => {
  it('shows what the server says, the idle ones first', async () => {
    const [, model] = await shown();
    expect([model.status, model.hasHub, model.clusters.map(({ name }) => name)]).toEqual(['read', true, ['a', 'b']]);
    model.sortBy('idle');
    expect(model.clusters.map(({ name }) => name)).toEqual(['b', 'a']);
    model.sortBy('name');
    expect(model.order).toEqual({ by: 'name', isDescending: false });
  });

  it('shows those of the JupyterHub, and no late answer of this server', async () => {
    const [server, model] = await shown();
    void model.read();
    void model.show(true);
    expect([model.status, model.clusters]).toEqual(['reading', []]);
    await server.answer('hubOverview', { clusters: [RUNS], problems: [], hasHub: false });
    await server.answer('overview', { clusters: [A], problems: [], hasHub: true });
    expect([model.clusters, model.hasHub, model.isOfHub]).toEqual([[RUNS], true, true]);
  });

  it('says why there is no answer', async () => {
    const [server, model] = await shown();
    void model.show(true);
    await server.refuse('hubOverview', 'Who looks at all servers needs a token.');
    expect([model.status, model.problem, model.clusters]).toEqual(['failed', 'Who looks at all servers needs a token.', []]);
  });

  it('stops those that were asked for, and reads again', async () => {
    const [server, model] = await shown();
    expect([model.idleS, model.idle]).toEqual([1800, [A]]);
    model.chooseIdle(4 * 3600);
    expect(model.idle).toEqual([]);
    model.chooseIdle(300);
    const stopped = model.stop(model.idle);
    await server.answer('stopIdle h/a 300', new Map([['h/a', 'used']]));
    await server.answer('overview', { clusters: [RUNS], problems: [], hasHub: true });
    expect(await stopped).toEqual([[A, 'used']]);
    expect(model.clusters).toEqual([RUNS]);
  });

  it('stops those of a JupyterHub by user and server', async () => {
    const [server, model] = await shown();
    void model.show(true);
    await server.answer('hubOverview', { clusters: [A], problems: [], hasHub: false });
    const stopped = model.stop([A, FAR]);
    await server.answer('stopIdleInHub [object Object],[object Object] 1800', new Map([[keyOf(A), 'stopped']]));
    await server.answer('hubOverview', { clusters: [], problems: [], hasHub: false });
    expect(await stopped).toEqual([[A, 'stopped'], [FAR, 'failed']]);
  });
});
