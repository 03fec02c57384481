import { describe, expect, it } from 'vitest';
import { outputsPageOf, type RankOutput } from '../src/model/rank_outputs';
import { MAX_CHARACTERS, RankOutputsModel } from '../src/model/rank_outputs_model';
import { FakeServer, settled } from './fake_server';

const text = (of: string): RankOutput => ({ type: 'stream', name: 'stdout', text: of });

function made(): { server: FakeServer; model: RankOutputsModel; got: RankOutput[] } {
  const server = new FakeServer();
  const model = new RankOutputsModel(server, 'run', 1);
  const got: RankOutput[] = [];
  model.added.connect((_, added) => got.push(...added));
  return { server, model, got };
}

describe('what a rank showed', () => {
  it('is read page by page to its end, and on from there when it is asked for again', async () => {
    const { server, model, got } = made();
    void model.readOn();
    void model.readOn();
    expect(server.waiting).toEqual(['rankOutputs run 1 0']);
    await server.answer('rankOutputs run 1 0', { next: 10, outputs: [text('a')] });
    await server.answer('rankOutputs run 1 10', { next: 10, outputs: [] });
    expect(server.waiting).toEqual([]);
    void model.readOn();
    await server.answer('rankOutputs run 1 10', { next: 12, outputs: [text('b')] });
    await server.answer('rankOutputs run 1 12', { next: 12, outputs: [] });
    expect(got).toEqual([text('a'), text('b')]);
  });

  it('says what went wrong, and is read again', async () => {
    const { server, model } = made();
    void model.readOn();
    await server.refuse('rankOutputs run 1 0', 'The hub takes 64 requests at a time.');
    expect(model.problem).toBe('The hub takes 64 requests at a time.');
    expect(server.waiting).toEqual([]);
    void model.readOn();
    await server.answer('rankOutputs run 1 0', { next: 0, outputs: [] });
    expect(model.problem).toBe('');
  });

  it('has no more text than a page can lay out, until it is cleared; figures come after it, too', async () => {
    const { server, model, got } = made();
    const figure: RankOutput = { type: 'display', data: {}, metadata: {}, displayId: null };
    const full = text('x'.repeat(MAX_CHARACTERS));
    void model.readOn();
    await server.answer('rankOutputs run 1 0', { next: 5, outputs: [full, text('left out'), figure] });
    expect(model.isCut).toBe(true);
    expect(got).toEqual([full, figure]);
    await server.answer('rankOutputs run 1 5', { next: 9, outputs: [{ type: 'clear', wait: false }, text('after')] });
    expect(model.isCut).toBe(false);
    expect(got.at(-1)).toEqual(text('after'));
  });

  it('comes no more once nobody looks', async () => {
    const { server, model, got } = made();
    void model.readOn();
    model.dispose();
    await server.answer('rankOutputs run 1 0', { next: 5, outputs: [text('a')] });
    await settled();
    expect(got).toEqual([]);
    expect(server.waiting).toEqual([]);
  });

  it('is what the server sends, and what a newer one sends besides is left out', () => {
    const outputs = [
      { type: 'stream', name: 'stderr', text: 'a' },
      { type: 'display', data: { 'text/html': '<b>' }, metadata: {}, display_id: 'd' },
      { type: 'error', name: 'ValueError', message: 'm', traceback: ['t'] },
      { type: 'clear', wait: true },
      { type: 'new' },
      7,
    ];
    expect(outputsPageOf({ next: 7, outputs })).toEqual({
      next: 7,
      outputs: [
        { type: 'stream', name: 'stderr', text: 'a' },
        { type: 'display', data: { 'text/html': '<b>' }, metadata: {}, displayId: 'd' },
        { type: 'error', name: 'ValueError', message: 'm', traceback: ['t'] },
        { type: 'clear', wait: true },
      ],
    });
  });
});
