// Which part of a timeline is drawn, and which of several readings is shown.
import { expect, it } from 'vitest';
import { shifted, timelineOf, type Timeline, type TimelineStep, whole, worstStep, zoomed } from '../src/model/timeline';
import { TimelineModel } from '../src/model/timeline_model';
import { FakeServer } from './fake_server';

const step = (number: number, begin: number, end: number): TimelineStep => ({
  number,
  begin_us: begin,
  handed_us: [[0, begin]],
  ready_us: begin,
  end_us: end,
  exchanges: [],
  copies: [],
  late: null,
});
const rank = (late_us: number, worst: number | null): object => ({ late_us, worst: worst === null ? null : { step: worst } });

it('a zoom keeps the moment under the pointer, and neither leaves what there is', () => {
  const all = whole([step(0, 100, 200), step(1, 200, 500)]);
  expect(all).toEqual([100, 500]);
  expect(zoomed(all, 0.5, 200, all)).toEqual([150, 350]);
  expect(zoomed([150, 350], 0.5, 350, all)).toEqual([250, 350]);
  expect(zoomed([150, 350], 4, 200, all)).toEqual(all);
  expect(zoomed([450, 500], 2, 450, all)).toEqual([400, 500]);
  expect(shifted([150, 350], 50, all)).toEqual([200, 400]);
  expect(shifted([150, 350], 500, all)).toEqual([300, 500]);
  expect(shifted([150, 350], -500, all)).toEqual([100, 300]);
  expect(whole([])).toEqual([0, 1]);
});

it('the step that is named is the worst one of the rank that was waited for longest', () => {
  const of = (by_rank: object): Timeline => ({ by_rank }) as Timeline;
  expect(worstStep(of({ 0: rank(3, 7), 1: rank(50, 4) }))).toBe(4);
  expect(worstStep(of({ 0: rank(0, null) }))).toBeNull();
  expect(worstStep(of({}))).toBeNull();
});

it('of two readings the one that was asked for last is shown, and a failure leaves what was there', async () => {
  const server = new FakeServer();
  const model = new TimelineModel(server, 'r');
  let changes = 0;
  model.changed.connect(() => void changes++);
  void model.read();
  void model.read(40);
  await server.answer('timeline r 40', { steps: 2, picture: [] });
  await server.answer('timeline r 0', { steps: 1, picture: [] });
  expect([model.timeline?.steps, changes]).toEqual([2, 1]);
  void model.read(3);
  await server.refuse('timeline r 3', 'A run has a timeline where it was recorded.');
  expect([model.timeline?.steps, model.problem]).toEqual([2, 'A run has a timeline where it was recorded.']);
  void model.read(3);
  await server.answer('timeline r 3', { steps: 5 });
  expect(model.problem).toContain('Received: something else');
  expect([model.jsonUrl, model.perfettoUrl]).toEqual(['r timeline-file', 'r timeline-file 1']);
  expect(() => timelineOf(null)).toThrow(TypeError);
});
