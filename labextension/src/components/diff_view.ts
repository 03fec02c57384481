// Two texts line by line, below each other or side by side. Text, and never HTML.
import { type DiffLine, hunks, lineDiff, sideBySide } from '../model/line_diff';
import { h } from './dom';

const AROUND = 3;
/** More lines than these are a page's whole work: the rest is said to be there. */
const MAX_LINES = 4000;

export interface DiffTexts {
  readonly same: string;
  readonly skipped: (count: number) => string;
  readonly more: (count: number) => string;
  readonly gone: string;
  readonly came: string;
}

/** Return the differences of two texts as a table. */
export function diffTable(first: string, second: string, isSideBySide: boolean, texts: DiffTexts): HTMLElement {
  const lines = lineDiff(first, second);
  if (lines.every(({ before, after }) => before !== null && after !== null)) {
    return h('p', { class: 'ddl-hint' }, texts.same);
  }
  const columns = isSideBySide ? 4 : 3;
  const rows: HTMLElement[] = [];
  let left = MAX_LINES;
  for (const { skipped, lines: of } of hunks(lines, AROUND)) {
    if (skipped > 0) {
      rows.push(h('tr', { class: 'ddl-diff-skipped' }, h('td', { colspan: String(columns) }, texts.skipped(skipped))));
    }
    const shown = of.slice(0, left);
    left -= shown.length;
    rows.push(...(isSideBySide ? sideBySide(shown).map(({ left: a, right: b }) => sideRow(a, b, texts)) : shown.map((line) => unifiedRow(line, texts))));
    if (shown.length < of.length) {
      rows.push(h('tr', { class: 'ddl-diff-skipped' }, h('td', { colspan: String(columns) }, texts.more(of.length - shown.length))));
      break;
    }
  }
  const side = (): HTMLElement[] => [h('col', { class: 'ddl-diff-place' }), h('col')];
  const widths = isSideBySide ? [h('colgroup', {}, ...side(), ...side())] : [];
  return h('table', { class: `ddl-diff ${isSideBySide ? 'ddl-diff-sides' : ''}` }, ...widths, h('tbody', {}, ...rows));
}

type Kind = 'same' | 'gone' | 'came';
const kindOf = ({ before, after }: DiffLine): Kind => (after === null ? 'gone' : before === null ? 'came' : 'same');

function code(line: DiffLine, texts: DiffTexts): HTMLElement {
  const kind = kindOf(line);
  const sign = { same: ' ', gone: '−', came: '+' }[kind];
  const label = kind === 'same' ? {} : { role: 'img', 'aria-label': texts[kind] };
  return h('td', { class: `ddl-diff-${kind}` }, h('span', { class: 'ddl-diff-sign', ...label }, sign), h('code', {}, line.text));
}

const place = (at: number | null | undefined): HTMLElement => h('td', { class: 'ddl-diff-place' }, at == null ? '' : String(at));

function unifiedRow(line: DiffLine, texts: DiffTexts): HTMLElement {
  return h('tr', {}, place(line.before), place(line.after), code(line, texts));
}

function sideRow(left: DiffLine | null, right: DiffLine | null, texts: DiffTexts): HTMLElement {
  const nothing = (): HTMLElement => h('td', { class: 'ddl-diff-nothing' });
  const of = (line: DiffLine | null): HTMLElement => (line === null ? nothing() : code(line, texts));
  return h('tr', {}, place(left?.before), of(left), place(right?.after), of(right));
}
