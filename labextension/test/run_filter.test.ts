import { describe, expect, it } from 'vitest';
import { completions, type FieldValues, filterOf, hasValue, queryOf, toggled } from '../src/model/run_filter';
import { changeOf } from '../src/model/run_labels';

const KNOWN: FieldValues = {
  state: [['finished', 3], ['timed out', 1]],
  notebook: [['my train.ipynb', 4]],
  tag: [['paper', 2], ['mnist', 1]],
  name: [['the "best"', 1]],
  model: [],
};

describe('what is written in the search field', () => {
  it.each([
    ['', [], ''],
    ['no such run', [], 'no such run'],
    ['state:failed tag:paper batch', [['state', 'failed'], ['tag', 'paper']], 'batch'],
    ['State:"timed out" x', [['state', 'timed out']], 'x'],
    ['state:"timed ou', [['state', 'timed ou']], ''],
    ['tag:', [], ''],
    ['tag:"" a', [], 'a'],
    ['at 12:30 host:a', [], 'at 12:30 host:a'],
    ['"small batch" tag:a tag:b', [['tag', 'a'], ['tag', 'b']], 'small batch'],
  ])('%s', (written, values, text) => {
    expect(filterOf(written)).toEqual({ values, text });
  });

  it('is asked of the server with each value on its own', () => {
    expect(queryOf('tag:a big tag:b')).toEqual([['tag', 'a'], ['tag', 'b'], ['search', 'big']]);
  });

  it('takes a value in, and out again', () => {
    const written = toggled('big tag:paper', 'state', 'timed out');
    expect(written).toBe('tag:paper state:"timed out" big');
    expect([hasValue(written, 'state', 'timed out'), hasValue(written, 'state', 'timed')]).toEqual([true, false]);
    expect(toggled(written, 'state', 'timed out')).toBe('tag:paper big');
    expect(toggled('', 'name', 'the "best"')).toBe('name:best');
    expect(toggled('name:best', 'name', 'the "best"')).toBe('');
  });

  it.each([
    ['', []],
    ['s', ['state:']],
    ['tag:paper n', ['tag:paper notebook:', 'tag:paper name:']],
    ['state:', ['state:finished', 'state:"timed out"']],
    ['state:"ti', ['state:"timed out"']],
    ['big tag:P', ['big tag:paper']],
    ['tag:paper', []],
    ['notebook:train', ['notebook:"my train.ipynb"']],
    ['zzz', []],
  ])('%s may mean', (written, whole) => {
    expect(completions(written, KNOWN)).toEqual(whole);
    expect(completions(written, null).every((one) => whole.includes(one as never))).toBe(true);
  });
});

describe('labels that were written', () => {
  it('change what came and what went of tags, and nothing that another page did', () => {
    expect(changeOf({ tags: ['a', 'b'] }, 'tags', ' b, c c ')).toEqual({ remove_tags: ['a'], add_tags: ['c'] });
    expect(changeOf({ tags: [] }, 'name', ' small batch ')).toEqual({ name: 'small batch' });
    expect(changeOf({ tags: [] }, 'note', '')).toEqual({ note: '' });
  });
});
