import { expect, it, describe } from 'vitest';
import { ConsoleModel } from '../src/model/console_model';
import { HubModel } from '../src/model/hub';
import type { KernelState } from '../src/model/hub_messages';
import { onRank } from '../src/model/magic';

const KERNEL: KernelState = {
  type: 'kernel_state',
  kernel: 'k',
  pid: 1,
  cluster: { name: 'default', state: 'idle', note: '', step: null, world_size: 2, ranks: [], ends_at_s: null, idle_ends_at_s: null, keeps_variables: false, job: null, held: null },
  run: null,
  fault: null,
  whole_notebook: false,
};

function made(rank = 1): { hub: HubModel; model: ConsoleModel; states: string[] } {
  const hub = new HubModel();
  const model = new ConsoleModel(hub, () => 'k', rank);
  const states: string[] = [];
  model.changed.connect(({ state }) => states.push(state));
  return { hub, model, states };
}

describe('a console on a rank', () => {
  it('knows whether its rank is there, and whether a cell runs on the ranks', () => {
    const { hub, model, states } = made(2);
    expect(model.state).toBe('none');
    hub.handle(KERNEL);
    hub.handle({ ...KERNEL, cluster: { ...KERNEL.cluster!, world_size: 3 } });
    hub.handle({ ...KERNEL, cluster: { ...KERNEL.cluster!, world_size: 3 }, run: 'r' });
    hub.handle({ ...KERNEL, cluster: { ...KERNEL.cluster!, state: 'stopped' } });
    expect(states).toEqual(['gone', 'idle', 'busy', 'none']);
    model.dispose();
    hub.handle(KERNEL);
    expect(states).toHaveLength(4);
  });

  it('waits for the cell before it, runs, and ends, in any order that a kernel tells of', () => {
    const { hub, model, states } = made();
    hub.handle({ ...KERNEL, run: 'of a cell' });
    const first = model.send();
    const second = model.send();
    first.began();
    first.ended();
    // A kernel that was restarted: it never began.
    second.ended();
    second.began();
    expect(states).toEqual(['busy', 'waiting', 'waiting', 'running', 'waiting', 'busy', 'busy']);
  });
});

describe('code of a console', () => {
  it.each([
    ['a = 1', '%%distributed -r 1\na = 1'],
    ['%%distributed\na', '%%distributed -r 1\na'],
    ['\n%%distributed -r 0,3 --auto\na', '\n%%distributed -r 1 --auto\na'],
    ['%%distributed -r 1\na', '%%distributed -r 1\na'],
    ['%%local\na', '%%distributed -r 1\na'],
    ['!ls', '%%distributed -r 1\n!ls'],
    [' \n', ''],
  ])('runs on its rank, whatever its own magic says: %j', (source, sent) => {
    expect(onRank(source, 1)).toBe(sent);
  });
});
