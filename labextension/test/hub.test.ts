import { describe, expect, it } from 'vitest';
import fixture from '../schema/hub.fixture.json';
import { HubModel } from '../src/model/hub';
import { type HubMessage, type KernelState, parseHubMessage, type RunNotice } from '../src/model/hub_messages';

const FROM_HUB = new Set(['kernel_state', 'kernel_gone', 'run_notice', 'answer']);
const examples = fixture.filter(({ type }) => FROM_HUB.has(type));

function parsed(value: unknown): HubMessage {
  const message = parseHubMessage(JSON.stringify(value));
  expect(message).not.toBeNull();
  return message!;
}

const state = (more: Partial<KernelState> = {}): KernelState => {
  const cluster = { name: 'default', state: 'idle', note: '', step: null, world_size: 2, ranks: [] } as const;
  return { type: 'kernel_state', kernel: 'k', pid: 1, cluster, run: null, fault: null, ...more };
};
const notice = (more: Partial<RunNotice> = {}): RunNotice => {
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
    hub.faulted.connect((_, { fault }) => told.push(fault));
    hub.handle(state({ fault: 'old' }));
    hub.handle(state({ fault: 'old', run: 'r' }));
    hub.handle(state({ fault: 'new' }));
    hub.handle(state());
    expect(told).toEqual(['new']);
  });

  it('keeps the newest notice of each cell, and no number of them', () => {
    const hub = new HubModel();
    hub.handle(notice());
    hub.handle(notice({ state: 'failed', seconds: 2 }));
    hub.handle(notice({ cell_id: null, run: 'other' }));
    expect(hub.cells.get('c')?.state).toBe('failed');
    hub.remember(notice({ run: 'before' }));
    expect(hub.cells.get('c')?.run).toBe('r');
    for (let at = 0; at < 2100; at++) {
      hub.handle(notice({ cell_id: `c${at}` }));
    }
    expect(hub.cells.size).toBe(2000);
    expect(hub.cells.has('c')).toBe(false);
  });
});
