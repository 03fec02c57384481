// A profile of ranks: read from an answer, laid out as a flame graph, and walked through by keys.
import { describe, expect, it } from 'vitest';
import { ALL, type Box, type Call, flameBoxes, neighbour, type Profile, profileOf } from '../src/model/profile';
import { ProfileModel } from '../src/model/profile_model';
import { FakeServer } from './fake_server';

const call = (parent: number, where: string, share: number): Call => ({
  ...{ parent, where, text: '', kind: 'own', share, own: 0, samples: 1, ranks: [[0, share]], differs: '' },
});
// load() takes 20 %, of train() 80 %: 60 % in fit, 1 % in log.
const CALLS = [call(-1, 'load', 0.2), call(-1, 'train', 0.8), call(1, 'log', 0.02), call(1, 'fit', 0.6), call(3, 'step', 0.6)];
const PROFILE: Profile = { ranks: [0, 1], ticks: 100, samples: 99, calls: CALLS, differences: [{ call: 1, text: 'rank 1: 9%' }], notes: [] };
const shown = (boxes: readonly Box[]): unknown[] =>
  boxes.map(({ call: at, depth, left, width }) => [CALLS[at]?.where ?? 'all', depth, Number(left.toFixed(3)), Number(width.toFixed(3))]);

describe('a flame graph', () => {
  it('has callers above what they call, the longest first, and leaves out what cannot be seen', () => {
    expect(shown(flameBoxes(PROFILE, ALL, 0.03))).toEqual([
      ['all', 0, 0, 1],
      ['train', 1, 0, 0.8],
      ['fit', 2, 0, 0.6],
      ['step', 3, 0, 0.6],
      ['load', 1, 0.8, 0.2],
    ]);
  });

  it('fills its width with the call that is zoomed, whose callers stay above it', () => {
    expect(shown(flameBoxes(PROFILE, 1, 0.005))).toEqual([
      ['all', 0, 0, 1],
      ['train', 1, 0, 1],
      ['fit', 2, 0, 0.75],
      ['step', 3, 0, 0.75],
      ['log', 2, 0.75, 0.025],
    ]);
  });

  it('leads by arrows to the caller, the longest callee, and what is beside', () => {
    const boxes = flameBoxes(PROFILE, ALL, 0.005);
    const walk = (...keys: string[]): string[] => {
      let at = boxes[0]!;
      return keys.map((key) => {
        at = neighbour(boxes, PROFILE, at, key) ?? at;
        return CALLS[at.call]?.where ?? 'all';
      });
    };
    expect(walk('ArrowUp', 'ArrowDown', 'ArrowDown', 'ArrowRight', 'ArrowRight')).toEqual(['all', 'train', 'fit', 'log', 'log']);
    expect(walk('ArrowDown', 'ArrowRight', 'ArrowDown', 'ArrowLeft', 'ArrowUp', 'ArrowUp')).toEqual(['train', 'load', 'load', 'train', 'all', 'all']);
    expect(walk('ArrowDown', 'ArrowDown', 'ArrowDown', 'Home', 'x')).toEqual(['train', 'fit', 'step', 'all', 'all']);
  });
});

describe('a profile', () => {
  it('is read from what the kernel answers', () => {
    expect(profileOf(JSON.parse(JSON.stringify(PROFILE)))).toEqual(PROFILE);
  });

  it('of another version, or that holds what it must not, harms nothing', () => {
    expect(() => profileOf(null)).toThrow('The kernel must answer with a profile.');
    const odd = { ...PROFILE, calls: [{ ...CALLS[0], parent: 7 }, 'x', { ...CALLS[1], share: 'much' }], differences: [{ call: 9, text: 'x' }], notes: [1] };
    const read = profileOf(odd);
    expect([read.calls.map(({ parent }) => parent), read.differences, read.notes]).toEqual([[ALL], [], []]);
  });

  it('is taken once at a time, and says why it was not', async () => {
    const server = new FakeServer();
    const model = new ProfileModel(server, 'k');
    void model.take();
    void model.take();
    expect([model.status, server.waiting]).toEqual(['sampling', ['control k profile [object Object]']]);
    await server.refuse('control k profile [object Object]', 'One profile at a time is taken of a rank.');
    expect([model.status, model.problem, model.profile]).toEqual(['failed', 'One profile at a time is taken of a rank.', null]);
    void model.take();
    await server.answer('control k profile [object Object]', PROFILE);
    expect([model.status, model.profile]).toEqual(['taken', PROFILE]);
  });
});
