// What comes back when the page is loaded again: what the form held, and the marks of cells.
import type { IStateDB } from '@jupyterlab/statedb';
import type { CellMark, CellMarks } from './model/cell_marks';
import { parseHubMessage } from './model/parse_hub';
import { isRecord } from './model/parse';
import { type KeptFields, START_FIELDS, type StartFields } from './model/start';
import { NAMESPACE } from './tokens';

const FORM = `${NAMESPACE}:form`;
const SEARCH = `${NAMESPACE}:search`;
const CELLS = `${NAMESPACE}:cells`;
const MAX_CELLS = 200;
const KEPT = START_FIELDS.filter((name) => name !== 'name');

/** Bring back the marks of cells, and keep them from now on.
 *
 * @param restored called once they are back.
 */
export function keepMarks(state: IStateDB, marks: CellMarks, restored: () => void): void {
  void state.fetch(CELLS).then((found) => {
    for (const kept of Array.isArray(found) ? found : []) {
      const mark = markOf(kept);
      if (mark !== null) {
        marks.remember(mark);
      }
    }
    restored();
  });
  marks.changed.connect(() => {
    const newest = marks.all().slice(-MAX_CELLS).map(({ place, notice }) => ({ place, notice: { ...notice } }));
    void state.save(CELLS, newest);
  });
}

/** Return what the runs were searched for last. */
export async function searchOf(state: IStateDB): Promise<string> {
  const found = await state.fetch(SEARCH);
  return typeof found === 'string' ? found : '';
}

export function keepSearch(state: IStateDB, search: string): void {
  void state.save(SEARCH, search);
}

/** Return what the form held last. */
export async function formOf(state: IStateDB): Promise<KeptFields> {
  return fieldsOf(await state.fetch(FORM));
}

/** Keep what the form holds, but for the name: the next notebook's ranks need another one. */
export function keepForm(state: IStateDB, fields: StartFields): void {
  void state.save(FORM, Object.fromEntries(KEPT.map((name) => [name, fields[name]])));
}

function fieldsOf(found: unknown): KeptFields {
  const texts = KEPT.map((name) => [name, isRecord(found) ? found[name] : null]);
  return Object.fromEntries(texts.filter(([, text]) => typeof text === 'string'));
}

/** Return a mark as it was kept; null for what an older version kept. */
function markOf(kept: unknown): CellMark | null {
  if (!isRecord(kept) || typeof kept['place'] !== 'string' || !isRecord(kept['notice'])) {
    return null;
  }
  // No mark shows a fault, which was a sentence in older versions.
  const notice = parseHubMessage(JSON.stringify({ ...kept['notice'], fault: null }));
  return notice?.type === 'run_notice' ? { place: kept['place'], notice } : null;
}
