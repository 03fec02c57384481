import { afterEach, describe, expect, it, vi } from 'vitest';
import fixture from '../schema/hub.fixture.json';
import { CellMarks } from '../src/model/cell_marks';
import { HubModel } from '../src/model/hub';
import type { Fault } from '../src/model/events';
import type { KernelState, ToBrowser } from '../src/model/hub_messages';
import type { Notice } from '../src/model/notice';
import { parseHubMessage, parseRunBatch } from '../src/model/parse_hub';
import { OpenEnds } from '../src/model/open_ends';
import type { RunRecord } from '../src/model/runs';
import { record as bareRecord } from './fake_server';

const FROM_HUB = new Set(['kernel_state', 'kernel_gone', 'run_notice', 'answer']);
const examples = fixture.filter(({ type }) => FROM_HUB.has(type));

function parsed(value: unknown): ToBrowser {
  const message = parseHubMessage(JSON.stringify(value));
  expect(message).not.toBeNull();
  return message!;
}

// Of a fault, what a kernel or the hub has rendered is all that these models read.
const RAISED = examples.find((example) => example.type === 'kernel_state' && example.fault)?.fault as unknown as Fault;
const faultOf = (text: string): Fault => ({ ...RAISED, text });
const state = (more: Partial<KernelState> = {}): KernelState => {
  const cluster = { name: 'default', state: 'idle', note: '', step: null, world_size: 2, ranks: [], ends_at_s: null, idle_ends_at_s: null, keeps_variables: false, job: null, held: null } as const;
  return { type: 'kernel_state', kernel: 'k', pid: 1, cluster, run: null, fault: null, whole_notebook: false, ...more };
};
const notice = (more: Partial<Notice> = {}): Notice => {
  return { type: 'run_notice', kernel: 'k', run: 'r', state: 'running', cell_id: 'c', ranks: '0-1', seconds: null, fault: null, ...more };
};

describe('the fixture that Python writes', () => {
  it('has every message that a browser gets', () => {
    expect(new Set(examples.map(({ type }) => type))).toEqual(FROM_HUB);
  });

  it.each(examples.map((example) => [example.type, example] as const))('%s parses to itself', (_, example) => {
    expect(parsed(example)).toMatchObject(example);
  });
});

describe('what is no message', () => {
  it.each([
    ['[]', /A message must be an object with a type/],
    ['{"type": "kernel_gone"}', /kernel of a kernel_gone message is not what it must be\. Received: undefined/],
    ['{"type": "kernel_state", "kernel": "k", "pid": 1, "cluster": {"name": 1}}', /cluster of a kernel_state message/],
  ])('%s is told', (frame, message) => {
    expect(() => parseHubMessage(frame)).toThrow(message);
  });

  it('of a newer hub is left out', () => {
    expect(parseHubMessage('{"type": "gossip"}')).toBeNull();
    expect(parseHubMessage('{"type": "toString"}')).toBeNull();
  });

  it('reads a binary frame: whose events it has, and how their run ended', () => {
    const frame = (text: string): ArrayBuffer => new TextEncoder().encode(text).buffer;
    const batch = parseRunBatch(frame('{"run": "r", "ended": "lost"}\n{"first": 0}'));
    expect([batch?.run, batch?.ended, new TextDecoder().decode(batch?.bytes)]).toEqual(['r', 'lost', '{"first": 0}']);
    expect(parseRunBatch(frame('{"run": "r"}\n'))).toMatchObject({ run: 'r', ended: null });
    expect(parseRunBatch(frame('{"ended": "lost"}\n{}'))).toBeNull();
  });
});

describe('HubModel', () => {
  it('knows the kernels with ranks, as they come and go', () => {
    const hub = new HubModel();
    let changes = 0;
    hub.changed.connect(() => changes++);
    hub.handle(state());
    hub.handle(state({ kernel: 'none', cluster: null }));
    expect(hub.withRanks().map(({ kernel }) => kernel)).toEqual(['k']);
    hub.handle({ type: 'kernel_gone', kernel: 'k' });
    expect(hub.withRanks()).toEqual([]);
    expect(changes).toBe(3);
  });

  it('forgets the kernels with the connection, since they are told anew', () => {
    const hub = new HubModel();
    hub.connect(true);
    hub.handle(state());
    hub.connect(false);
    expect(hub.isConnected).toBe(false);
    expect(hub.kernels.size).toBe(0);
  });

  it('tells of a new fault once, and not of one that was there before the page', () => {
    const hub = new HubModel();
    const told: (string | null)[] = [];
    hub.faulted.connect((_, { fault }) => told.push(fault?.text ?? null));
    hub.handle(state({ fault: faultOf('old') }));
    hub.handle(state({ fault: faultOf('old'), run: 'r' }));
    hub.handle(state({ fault: faultOf('new') }));
    hub.handle(state());
    expect(told).toEqual(['new']);
  });

  it('tells of a kernel that is gone, as it was', () => {
    const hub = new HubModel();
    const gone: (string | null)[] = [];
    hub.gone.connect((_, { run }) => gone.push(run));
    hub.handle(state({ run: 'r' }));
    hub.handle({ type: 'kernel_gone', kernel: 'k' });
    hub.handle({ type: 'kernel_gone', kernel: 'other' });
    expect(gone).toEqual(['r']);
  });

  it('tells of a run’s fault once, whether or not its cell is known', () => {
    const hub = new HubModel();
    const told: (string | null)[] = [];
    hub.faulted.connect((_, { fault }) => told.push(fault?.text ?? null));
    hub.handle(state());
    hub.handle(notice({ state: 'failed', fault: faultOf('of a run'), cell_id: null }));
    hub.handle(state({ fault: faultOf('of a run') }));
    expect(told).toEqual([]);
    hub.handle(state({ fault: null, run: 'r2' }));
    hub.handle(state({ fault: faultOf('a stall'), run: 'r2' }));
    expect(told).toEqual(['a stall']);
  });
});

describe('CellMarks', () => {
  const PATHS: Readonly<Record<string, string>> = { k: 'a.ipynb', l: 'b.ipynb' };
  const marksOf = (hub: HubModel): CellMarks => new CellMarks(hub, (kernel) => PATHS[kernel] ?? null);

  it('keep the newest notice of each cell, and no number of them', () => {
    const hub = new HubModel();
    const marks = marksOf(hub);
    hub.handle(notice());
    hub.handle(notice({ state: 'failed', seconds: 2 }));
    hub.handle(notice({ cell_id: null, run: 'other' }));
    expect(marks.of('a.ipynb', 'k', 'c')?.state).toBe('failed');
    marks.remember({ place: 'a.ipynb', notice: notice({ run: 'before' }) });
    expect(marks.of('a.ipynb', 'k', 'c')?.run).toBe('r');
    for (let at = 0; at < 2100; at++) {
      hub.handle(notice({ cell_id: `c${at}` }));
    }
    expect(marks.all()).toHaveLength(2000);
    expect(marks.of('a.ipynb', 'k', 'c')).toBeNull();
  });

  it('are of a notebook: a copy has the same cells, and none of its marks', () => {
    const hub = new HubModel();
    const marks = marksOf(hub);
    hub.handle(notice());
    expect(marks.of('a-Copy1.ipynb', null, 'c')).toBeNull();
    expect(marks.of('b.ipynb', 'l', 'c')).toBeNull();
    hub.handle(notice({ kernel: 'unknown', cell_id: 'd' }));
    expect(marks.of('x.ipynb', 'unknown', 'd')?.run).toBe('r');
    expect(marks.of('x.ipynb', 'k', 'd')).toBeNull();
    marks.move('a.ipynb', 'renamed.ipynb');
    expect(marks.of('renamed.ipynb', null, 'c')?.run).toBe('r');
    expect(marks.of('a.ipynb', null, 'c')).toBeNull();
  });
});

describe('OpenEnds', () => {
  const record = (state: string, seconds: number | null = null): RunRecord => {
    return { ...bareRecord('r', state), ranks: [0, 1], seconds };
  };

  function begin(found: readonly (RunRecord | null)[]) {
    vi.useFakeTimers();
    const hub = new HubModel();
    const marks = new CellMarks(hub, () => 'a.ipynb');
    const asked = [...found];
    const ends = new OpenEnds(hub, marks, async () => (asked.length > 1 ? asked.shift()! : asked[0]!), 'It was cut off.');
    const told: Notice[] = [];
    hub.noticed.connect((_, one) => told.push(one));
    hub.connect(true);
    return { hub, marks, ends, told };
  }

  afterEach(() => void vi.useRealTimers());

  it.each([
    ['with a cell', 'c', notice({ cell_id: 'c' })],
    ['of a script or console', null, notice({ cell_id: null })],
  ])('say that a run was cut off, once its folder does: %s', async (_, cell, began) => {
    const { hub, marks, told } = begin([record('running'), record('cut off')]);
    hub.handle(state({ run: 'r' }));
    hub.handle(began);
    hub.handle({ type: 'kernel_gone', kernel: 'k' });
    await vi.advanceTimersByTimeAsync(100);
    expect(told.at(-1)?.state).toBe('running');
    await vi.advanceTimersByTimeAsync(2500);
    expect(told.at(-1)).toMatchObject({ run: 'r', state: 'cut off', ranks: '0-1', cell_id: cell, fault: { text: 'It was cut off.' } });
    expect(marks.of('a.ipynb', 'k', 'c')?.state ?? null).toBe(cell === null ? null : 'cut off');
    const count = told.length;
    await vi.advanceTimersByTimeAsync(20_000);
    expect(told).toHaveLength(count);
  });

  it.each([
    ['finished', record('finished', 12)],
    ['cut off', record('cut off')],
    ['deleted', null],
  ])('settle a mark that was remembered of a run that was %s meanwhile, and are no news', async (_, found) => {
    const { marks, ends, told } = begin([found]);
    marks.remember({ place: 'a.ipynb', notice: notice() });
    ends.check();
    await vi.advanceTimersByTimeAsync(100);
    expect(marks.of('a.ipynb', null, 'c')).toEqual(found === null ? null : notice({ state: found.state, seconds: found.seconds }));
    expect(told).toEqual([]);
  });

  it('leave a run to its kernel that lives, and one whose folder cannot be read as it is', async () => {
    const { hub, marks, ends } = begin([record('running')]);
    marks.remember({ place: 'a.ipynb', notice: notice() });
    hub.handle(state({ run: 'r' }));
    ends.check();
    await vi.advanceTimersByTimeAsync(5000);
    expect(marks.of('a.ipynb', null, 'c')?.state).toBe('running');
    expect(vi.getTimerCount()).toBe(0);
  });
});
