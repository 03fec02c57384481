// What a notebook's outputs say of runs; Python writes it (schema/generate.py).
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { finalOutput, isFinal, linesOf, RUN_MIME, runOf, widgetOf } from '../src/model/run_output';

type Data = Record<string, unknown>;
const written = JSON.parse(readFileSync(join(import.meta.dirname, '..', 'schema', 'run_output.fixture.json'), 'utf8')) as {
  readonly run: string;
  readonly running: Data;
  readonly final: Record<string, string>;
  readonly over: Data;
  readonly mark: Data;
};
const named = (run: unknown, version: unknown = 1): Data => ({ [RUN_MIME]: { run, version } });

describe("a run's output", () => {
  it('names the run, and has its final state when it is over', () => {
    expect([runOf(written.running), isFinal(written.running), widgetOf(written.running)]).toEqual([written.run, false, 'widget-1']);
    expect([runOf(written.over), isFinal(written.over), widgetOf(written.over)]).toEqual([written.run, true, null]);
  });

  it('is made here as the kernel makes it', () => {
    expect(finalOutput(written.run, written.final)['data']).toEqual(written.over);
  });

  it.each([
    ['a path', named(`../${written.run}`)],
    ['more than an id', named(`${written.run}/picture`)],
    ['lines', named(`${written.run}\n`)],
    ['markup', named('<img src=x onerror=alert(1)>')],
    ['no text', named(7)],
    ['another form', named(written.run, 2)],
    ['no object', { [RUN_MIME]: written.run }],
    ['nothing of ours', { 'text/plain': written.run }],
  ])('is none where it has %s', (_, data) => {
    expect(runOf(data)).toBeNull();
  });
});

describe('lines that the dashboard has too', () => {
  it('are those of its own run', () => {
    expect(linesOf(written.mark, written.run)).toBe(12);
    expect(linesOf(written.mark, written.run.replace('default', 'other'))).toBe(0);
  });

  it.each([{}, { 'jupyter-ddl': null }, { 'jupyter-ddl': { run: written.run, lines: '12' } }])('are not in %j', (metadata) => {
    expect(linesOf(metadata, written.run)).toBe(0);
  });
});
