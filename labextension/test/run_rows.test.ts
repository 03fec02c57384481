import { describe, expect, it } from 'vitest';
import { dayText, detail, whatText } from '../src/components/run_rows';
import { rowsOf } from '../src/model/run_days';
import { cellText, recordOf, type RunRecord } from '../src/model/runs';

const texts = { loss: (value: string) => `loss ${value}`, today: 'Today', yesterday: 'Yesterday' };
const record = (fields: object): RunRecord => recordOf({ run: 'r', start_s: 1, ranks: [0, 1], ...fields })!;

describe('the row of a run', () => {
  it('says what tells it from others', () => {
    const told = record({ name: 'small batch', notebook: '/home/me/train.ipynb', cell_number: 7, seconds: 3, loss: 0.5, tags: ['paper', 3, 'mnist'] });
    expect(whatText(told)).toBe('small batch · train.ipynb [7]');
    expect(detail(told, texts)).toMatch(/^\d\d:\d\d · 3 s · loss 0\.5 · paper, mnist$/);
  });

  it('leaves out what is not known', () => {
    expect(whatText(record({}))).toBe('');
    expect(detail(record({}), texts)).toMatch(/^\d\d:\d\d$/);
    const odd = record({ name: 3, notebook: [], cell_number: 'x', tags: 'paper', script: 7 });
    expect(whatText(odd)).toBe('');
    expect(detail(odd, texts)).toMatch(/^\d\d:\d\d$/);
  });

  it('has a cell of a notebook, with its number where that is known, or a script', () => {
    const none = { script: null, notebook: null, cell_number: null };
    expect(cellText({ ...none, notebook: 'a.ipynb' })).toBe('a.ipynb');
    expect(cellText({ ...none, cell_number: 3 })).toBe('');
    expect(cellText({ ...none, script: 'jobs/train.py' })).toBe('train.py');
  });
});

describe('the days of runs', () => {
  const at = (...when: [number, number, number, number?]): number => new Date(...when).getTime() / 1000;

  it('stand above their runs', () => {
    const runs = [at(2026, 10, 25, 9), at(2026, 10, 25, 8), at(2026, 10, 24, 23)].map((start_s, which) => record({ run: `r${which}`, start_s }));
    expect(rowsOf(runs).map((row) => (row.kind === 'run' ? row.id : new Date(row.start_s * 1000).getDate()))).toEqual([25, 'r0', 'r1', 24, 'r2']);
    expect(new Set(rowsOf([...runs, record({ run: 'r9', start_s: at(2026, 10, 25, 1) })]).map(({ id }) => id)).size).toBe(7);
    expect(rowsOf([])).toEqual([]);
  });

  it.each([
    [at(2026, 10, 26, 0), 'Today'],
    [at(2026, 10, 25, 23), 'Yesterday'],
    [at(2026, 10, 24, 12), 'Tue 24 Nov'],
    [at(2025, 10, 24, 12), 'Mon 24 Nov 2025'],
  ])('%d is %s', (start_s, text) => {
    expect(dayText(start_s, new Date(2026, 10, 26, 1), texts)).toBe(text);
  });
});
