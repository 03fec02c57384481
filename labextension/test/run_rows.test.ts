import { describe, expect, it } from 'vitest';
import { detail } from '../src/components/run_rows';
import { cellText, recordOf } from '../src/model/runs';

const record = (fields: object): Parameters<typeof detail>[0] => recordOf({ run: 'r', start_s: 1, ranks: [0, 1], ...fields })!;

describe('the row of a run', () => {
  it('says first what tells it from others', () => {
    const told = { name: 'small batch', notebook: '/home/me/train.ipynb', cell_number: 7, seconds: 3, loss: 0.5, tags: ['paper', 3, 'mnist'] };
    expect(detail(record(told))).toMatch(/^small batch · train\.ipynb \[7\] · ranks 0-1 · .* · loss 0\.5.* · paper, mnist$/);
  });

  it('leaves out what is not known', () => {
    expect(detail(record({}))).toBe('ranks 0-1');
    expect(detail(record({ name: 3, notebook: [], cell_number: 'x', tags: 'paper' }))).toBe('ranks 0-1');
  });

  it('has a cell of a notebook, with its number where that is known', () => {
    expect(cellText({ notebook: 'a.ipynb', cell_number: null })).toBe('a.ipynb');
    expect(cellText({ notebook: null, cell_number: 3 })).toBe('');
  });
});
