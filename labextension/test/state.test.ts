import type { IStateDB } from '@jupyterlab/statedb';
import { expect, it } from 'vitest';
import { CellMarks } from '../src/model/cell_marks';
import { HubModel } from '../src/model/hub';
import { keepMarks } from '../src/state';

it('brings marks back from before the page was loaded, also those that an older version kept', async () => {
  const notice = { type: 'run_notice', kernel: 'k', run: 'r', state: 'failed', cell_id: 'c', ranks: '0-1', seconds: 1, fault: 'Rank 1: no' };
  const kept = [{ place: 'a.ipynb' }, { place: 'a.ipynb', notice }, { place: 'a.ipynb', notice: { ...notice, cell_id: 'd', fault: { text: 'no' } } }];
  const state = { fetch: async () => kept, save: async () => undefined } as unknown as IStateDB;
  const marks = new CellMarks(new HubModel(), () => 'a.ipynb');
  await new Promise<void>((resolve) => keepMarks(state, marks, resolve));
  expect(marks.all().map((mark) => mark.notice.cell_id)).toEqual(['c', 'd']);
});
