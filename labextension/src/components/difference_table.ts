// What differs between runs: a column each, the names of the rows always in sight. Text, and never HTML.
import { change } from '../model/compare';
import type { Row, Section } from '../model/differences';
import type { Scalar } from '../model/run_facts';
import { h } from './dom';
import { loss, number } from './format';

export interface DifferenceTexts {
  readonly section: (kind: Section['kind']) => string;
  readonly row: (name: string) => string;
  readonly differs: string;
  readonly none: string;
}

const LOSSES: ReadonlySet<string> = new Set(['loss', 'val_loss']);
/** A commit's first characters tell it from others. */
const COMMIT = /^[0-9a-f]{40}$/;

/** Fill a table, whose first row has the runs. */
export function fillDifferences(
  table: HTMLTableElement,
  runs: readonly HTMLElement[],
  sections: readonly Section[],
  onlyDifferences: boolean,
  texts: DifferenceTexts,
): void {
  const head = h('thead', {}, h('tr', {}, h('td'), ...runs.map((run) => h('th', { scope: 'col' }, run))));
  const bodies = sections.map(({ kind, rows }) => {
    const shown = rows.filter(({ differs }) => differs || !onlyDifferences);
    const name = h('th', { scope: 'rowgroup', class: 'ddl-compare-section' }, texts.section(kind));
    const title = h('tr', {}, name, h('td', { colspan: String(runs.length) }));
    return shown.length === 0 ? null : h('tbody', {}, title, ...shown.map((row) => rowOf(row, texts)));
  });
  table.replaceChildren(head, ...bodies.filter((body) => body !== null));
}

function rowOf(row: Row, texts: DifferenceTexts): HTMLElement {
  const { name, values, differs } = row;
  const label = texts.row(name);
  const mark = differs ? [h('span', { class: 'ddl-differs', title: texts.differs, 'aria-label': texts.differs, role: 'img' }, '≠')] : [];
  const cells = values.map((value, at) => {
    const isOther = at > 0 && !Object.is(value, values[0]);
    const shown = textOf(row, value, texts.none);
    const text = shown + (isOther ? changeOf(row, value) : '');
    const more = value === undefined ? 'ddl-missing' : '';
    return h('td', { class: `${isOther ? 'ddl-other' : ''} ${more}`.trim(), title: typeof value === 'string' ? value : text }, text);
  });
  return h('tr', differs ? { class: 'ddl-differing' } : {}, h('th', { scope: 'row' }, ...mark, label), ...cells);
}

function textOf({ isFigure, name }: Row, value: Scalar | undefined, none: string): string {
  if (value === undefined) {
    return none;
  }
  if (typeof value === 'number') {
    return isFigure ? (LOSSES.has(name) ? loss : number)(value) : String(value);
  }
  // As Python writes them: these are its values.
  const words: readonly (readonly [Scalar, string])[] = [[null, 'None'], [true, 'True'], [false, 'False']];
  const word = words.find(([one]) => one === value)?.[1];
  return word ?? (COMMIT.test(String(value)) ? String(value).slice(0, 10) : String(value));
}

/** How much a figure is above the first run's, or below. */
function changeOf({ isFigure, values }: Row, value: Scalar | undefined): string {
  const [first] = values;
  const share = isFigure && typeof first === 'number' && typeof value === 'number' ? change(first, value) : null;
  return share === null ? '' : ` (${share >= 0 ? '+' : '−'}${(100 * Math.abs(share)).toFixed(1)}%)`;
}
