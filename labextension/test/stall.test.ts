// A stall is shown while it lasts, with where the ranks are; Python and the browser read the same fixture.
import { describe, expect, it } from 'vitest';
import fixture from '../schema/events.fixture.json';
import type { CollectiveStalled, DdlEvent, StallReported } from '../src/model/events';
import { parseEvent } from '../src/model/parse';
import { RunModel } from '../src/model/run';

const event = (value: object): DdlEvent => parseEvent(structuredClone(value))!;
const ofFixture = <T extends DdlEvent>(type: T['type']): T => event(fixture.find((one) => one.type === type)!) as T;

const STALLED = ofFixture<CollectiveStalled>('collective_stalled');
const FOUND = ofFixture<StallReported>('stall_reported');
// The kernel renders a fault's text for the browser.
const REPORTED: StallReported = { ...FOUND, fault: { ...FOUND.fault, text: 'The cell has stalled for 5 s: not every rank has entered' } };
const STARTED = event({ type: 'run_started', run: 'run-1', ranks: [0, 1], world_size: 2, at_s: 0 });
const REPORT = 'The cell has stalled for 5 s: not every rank has entered\n  HorovodAllreduce: rank 0 waits in it for rank 1\nRank 1 \x1b[31m<b>\n  cell line 2';

const sample = (rank: number, at_s: number, step: number | null): DdlEvent =>
  event({ type: 'metrics', run: 'run-1', rank, at_s, cpu_pct: 1, rss_bytes: 1, step, steps: 1 });

function stalled(...before: readonly DdlEvent[]): RunModel {
  const model = new RunModel();
  for (const one of [STARTED, ...before, STALLED, REPORTED]) {
    model.handle(one);
  }
  return model;
}

describe('a stall', () => {
  it('shows its report, and nothing before that came', () => {
    const model = new RunModel();
    model.handle(STARTED);
    model.handle(STALLED);
    expect(model.stall.report).toBe('');
    model.handle(REPORTED);
    expect(model.stall.report).toBe(REPORTED.fault.text);
    expect(model.stall.parts).toEqual({ what: REPORTED.fault.text, where: '' });
  });

  it('tells who waits for whom from where each rank is, as plain text', () => {
    const model = stalled();
    model.handle({ ...REPORTED, fault: { ...REPORTED.fault, text: REPORT } });
    expect(model.stall.parts).toEqual({
      what: 'The cell has stalled for 5 s: not every rank has entered\n  HorovodAllreduce: rank 0 waits in it for rank 1',
      where: 'Rank 1 <b>\n  cell line 2',
    });
  });

  it('lasts while the ranks tell of themselves and take no step, and goes with the next one', () => {
    const model = stalled(sample(0, 10, 7), sample(1, 10, 6));
    model.handle(sample(0, 11, 7));
    model.handle(sample(1, 11, 7));
    expect(model.stall.report).not.toBe('');
    model.handle(sample(1, 12, 8));
    expect(model.stall.report).toBe('');
  });

  it('goes once Horovod says nothing of it for three of its intervals, by any one clock', () => {
    const model = stalled();
    // The clocks of the two hosts are an hour apart.
    for (const at of [0, 1, 6.5]) {
      model.handle(sample(0, 1000 + at, null));
      model.handle(sample(1, 4600 + at, null));
    }
    expect(model.stall.report).not.toBe('');
    model.handle(STALLED);
    model.handle(sample(0, 1008, null));
    model.handle(sample(0, 1014, null));
    expect(model.stall.report).not.toBe('');
    model.handle(sample(0, 1014.6, null));
    expect(model.stall.report).toBe('');
  });

  it('whose report comes when the ranks have gone on is not shown', () => {
    const model = new RunModel();
    model.handle(STALLED);
    model.handle(sample(0, 1, 1));
    model.handle(REPORTED);
    expect(model.stall.report).toBe('');
  });

  it('that comes again says so, though the kernel looks at the ranks but once', () => {
    const model = stalled();
    model.handle(sample(0, 1, 1));
    model.handle(STALLED);
    expect(model.stall.report).toBe('The cell has stalled again. Rank 1 has not entered: HorovodAllreduce');
    model.handle({ ...STALLED, missing: {} });
    expect(model.stall.report).toBe('The cell has stalled again. Rank 1 has not entered: HorovodAllreduce');
  });

  it.each([
    ['finished', (model: RunModel) => model.handle(event({ type: 'run_finished', run: 'run-1', outcome: 'stalled', seconds: 9 }))],
    ['lost', (model: RunModel) => model.handle(event({ type: 'rank_lost', rank: null, cause: 'mpiexec ended', at_s: 9 }))],
    ['cut off', (model: RunModel) => model.endAs('cut off')],
  ])('goes with a run that is %s', (_, end) => {
    const model = stalled();
    end(model);
    expect(model.stall.report).toBe('');
  });
});
