import { describe, expect, it } from 'vitest';
import { LiveRuns, type RunWire } from '../src/model/live';

class Wire implements RunWire {
  readonly sent: string[] = [];
  watch = (run: string, next: number): void => void this.sent.push(`watch ${run} ${next}`);
  unwatch = (run: string): void => void this.sent.push(`unwatch ${run}`);
  taken = (run: string, next: number): void => void this.sent.push(`taken ${run} ${next}`);
}

function batch(first: number, next: number, events: readonly object[]): DataView {
  const content = { first, next, single: null, tables: [], events };
  return new DataView(new TextEncoder().encode(JSON.stringify(content)).buffer);
}

const STARTED = { type: 'run_started', run: 'r', ranks: [0, 1], world_size: 2, at_s: 0 };

describe('LiveRuns', () => {
  it('lets the events of what the title of the tab shows come while the page is hidden', () => {
    const wire = new Wire();
    const runs = new LiveRuns(wire);
    runs.open('seen');
    const seen = runs.open('r');
    const inTitle = runs.open('r', true);
    runs.pause();
    expect(wire.sent.splice(0)).toEqual(['watch seen 0', 'watch r 0', 'unwatch seen']);
    runs.reconnect();
    expect(wire.sent.splice(0)).toEqual(['watch r 0']);
    runs.close(inTitle, true);
    expect(wire.sent.splice(0)).toEqual(['unwatch r']);
    expect(runs.open('r', true)).toBe(seen);
    runs.open('begins', true);
    expect(wire.sent.splice(0)).toEqual(['watch r 0', 'watch begins 0']);
    runs.resume();
    expect(wire.sent).toEqual(['watch seen 0', 'watch r 0', 'watch begins 0']);
  });

  it('watches a run once for all that show it', () => {
    const wire = new Wire();
    const runs = new LiveRuns(wire);
    const first = runs.open('r');
    expect(runs.open('r')).toBe(first);
    runs.close(first);
    expect(wire.sent).toEqual(['watch r 0']);
    runs.close(first);
    expect(wire.sent).toEqual(['watch r 0', 'unwatch r']);
  });

  it('takes what comes, says so, and goes on after a lost connection from there', () => {
    const wire = new Wire();
    const runs = new LiveRuns(wire);
    const live = runs.open('r');
    let changes = 0;
    live.changed.connect(() => changes++);
    runs.handle('r', batch(0, 1, [STARTED]));
    runs.handle('other', batch(0, 1, [STARTED]));
    expect(live.model.ranks).toHaveLength(2);
    runs.resume();
    // What comes twice counts once.
    runs.handle('r', batch(0, 1, [STARTED]));
    expect(changes).toBe(1);
    expect(wire.sent).toEqual(['watch r 0', 'taken r 1', 'watch r 1', 'taken r 1']);
  });

  it('ends a run of whose end no event tells', () => {
    const runs = new LiveRuns(new Wire());
    const live = runs.open('r');
    let changes = 0;
    live.changed.connect(() => changes++);
    runs.handle('r', batch(0, 2, [STARTED, { type: 'rank_finished', run: 'r', rank: 1, at_s: 2 }]));
    runs.handle('r', batch(2, 2, []), 'cut off');
    runs.handle('r', batch(2, 2, []), 'cut off');
    expect(changes).toBe(2);
    expect(live.model.outcome).toBe('cut off');
    expect(live.model.ranks.map(({ state }) => state)).toEqual(['lost', 'finished']);
    const other = runs.open('s');
    runs.handle('s', batch(0, 1, [STARTED]), 'finished');
    expect([other.model.outcome, other.model.lost]).toEqual(['finished', null]);
  });

  it('is skipped forward: of what is left out nothing is missed', () => {
    const runs = new LiveRuns(new Wire());
    const live = runs.open('r');
    runs.handle('r', batch(0, 400, [STARTED]));
    expect(live.feed.next).toBe(400);
    expect(live.feed.isBehind).toBe(false);
  });

  it('lets nothing come while nobody looks', () => {
    const wire = new Wire();
    const runs = new LiveRuns(wire);
    runs.open('r');
    runs.pause();
    runs.open('s');
    runs.resume();
    expect(wire.sent).toEqual(['watch r 0', 'unwatch r', 'watch r 0', 'watch s 0']);
  });

  it('goes on with a page that was hidden', () => {
    const wire = new Wire();
    const runs = new LiveRuns(wire);
    const live = runs.open('r');
    runs.handle('r', batch(0, 7, [STARTED]));
    runs.close(live);
    expect(runs.reopen(live)).toBe(live);
    const other = runs.open('r');
    expect(other).toBe(live);
    expect(wire.sent).toEqual(['watch r 0', 'taken r 7', 'unwatch r', 'watch r 7']);
  });
});
