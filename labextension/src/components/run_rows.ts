// Runs in a narrow list, two lines each, under the days on which they began.
import { daysAgo } from '../model/run_days';
import { cellText, idText, type RunRecord } from '../model/runs';
import { compactRanks } from '../model/stacks';
import { h, setAttribute, setText } from './dom';
import { duration, loss, rate as rateText } from './format';

/** What a run came to, as a sign and a colour of the ranks' states. */
const STATES: Readonly<Record<string, readonly [sign: string, state: string]>> = {
  running: ['●', 'training'],
  finished: ['✓', 'finished'],
  failed: ['✕', 'failed'],
  lost: ['⌀', 'lost'],
  interrupted: ['◇', 'released'],
  'timed out': ['◑', 'straggler'],
  stalled: ['▲', 'straggler'],
};

export function signOf(state: string): readonly [sign: string, state: string] {
  return STATES[state] ?? ['○', 'waiting'];
}

/** What can be done with a row. */
export interface RowActions {
  readonly open: (row: HTMLElement) => void;
  readonly choose: (row: HTMLElement, isChosen: boolean) => void;
  /** Show the row's menu at a place of the page, and have the focus come back to where it was. */
  readonly menu: (row: HTMLElement, x: number, y: number) => void;
}

export interface RowTexts {
  /** Translates the word for a state. */
  readonly word: (text: string) => string;
  readonly choose: (when: string, state: string) => string;
  readonly loss: (value: string) => string;
  readonly ranks: (ranks: string, count: number) => string;
  readonly menu: (when: string, state: string) => string;
  readonly more: string;
  readonly today: string;
  readonly yesterday: string;
}

export function makeRunRow({ open, choose, menu }: RowActions, texts: RowTexts): HTMLElement {
  // The list is one stop of the Tab key; arrows move in it, Space ticks, Enter opens, and the menu's key has the menu.
  const box = h('input', { type: 'checkbox', tabindex: '-1' });
  const state = h('span', { class: 'ddl-rank-state' }, h('span', { 'aria-hidden': 'true' }), h('span', { class: 'ddl-run-word' }));
  // Where it is cut, the number of the cell stays.
  const what = h('span', { class: 'ddl-run-what' }, h('span', { class: 'ddl-run-title' }), h('span'));
  const rate = h('span', { class: 'ddl-rank-rate' });
  const more = h('span', { class: 'ddl-rank-place' });
  const button = h('button', { class: 'ddl-run-open', tabindex: '-1' }, state, what, rate, more);
  const kebab = h('button', { class: 'ddl-run-menu', tabindex: '-1', title: texts.more, 'aria-haspopup': 'menu' }, '\u22ee');
  const row = h('div', { class: 'ddl-run-row', role: 'listitem' }, box, button, kebab);
  const below = (element: HTMLElement): void => {
    const { left, bottom } = element.getBoundingClientRect();
    menu(row, left, bottom);
  };
  button.addEventListener('click', () => open(row));
  box.addEventListener('change', () => choose(row, box.checked));
  kebab.addEventListener('click', () => below(kebab));
  row.addEventListener('contextmenu', (event) => {
    // With Shift it is the browser's own, as everywhere in JupyterLab.
    if (!event.shiftKey) {
      event.preventDefault();
      event.stopPropagation();
      // The menu's key is pressed at no place.
      if (event.clientX === 0 && event.clientY === 0) {
        below(button);
      } else {
        menu(row, event.clientX, event.clientY);
      }
    }
  });
  return row;
}

export function fillRunRow(row: HTMLElement, record: RunRecord, isChosen: boolean, texts: RowTexts): void {
  const [box, button, kebab] = [...row.children] as [HTMLInputElement, HTMLElement, HTMLElement];
  const [state, what, rate, more] = [...button.children] as [HTMLElement, HTMLElement, HTMLElement, HTMLElement];
  const [sign, looks] = signOf(record.state);
  const word = texts.word(record.state);
  box.checked = isChosen;
  const when = whenText(record.start_s);
  setAttribute(box, 'aria-label', `${texts.choose(when, word)} (${record.run})`);
  setAttribute(kebab, 'aria-label', texts.menu(when, word));
  setAttribute(button, 'title', titleOf(record, texts));
  setText(state.firstElementChild as HTMLElement, sign);
  setText(state.lastElementChild as HTMLElement, word);
  setAttribute(state, 'class', `ddl-rank-state ddl-state-${looks}`);
  const [, title = '', number = ''] = /^(.*?)( \[\d+\])?$/.exec(whatText(record) || idText(record.run)) ?? [];
  setText(what.firstElementChild as HTMLElement, title);
  setText(what.lastElementChild as HTMLElement, number);
  setText(rate, record.samples_per_s === null ? '' : rateText(record.samples_per_s));
  setText(more, detail(record, texts));
}

export function makeDayRow(): HTMLElement {
  return h('div', { class: 'ddl-run-day', role: 'listitem' }, h('h3', {}));
}

export function fillDayRow(row: HTMLElement, start_s: number, texts: Pick<RowTexts, 'today' | 'yesterday'>): void {
  setText(row.firstElementChild as HTMLElement, dayText(start_s, new Date(), texts));
}

/** Return a day as a heading: `Today`, `Yesterday`, `Tue 24 Nov`, with the year where it is another one. */
export function dayText(start_s: number, now: Date, { today, yesterday }: Pick<RowTexts, 'today' | 'yesterday'>): string {
  const ago = daysAgo(start_s, now);
  if (ago === 0 || ago === 1) {
    return ago === 0 ? today : yesterday;
  }
  const day = new Date(start_s * 1000);
  const part = (options: Intl.DateTimeFormatOptions): string => day.toLocaleDateString(undefined, options);
  const year = day.getFullYear() === now.getFullYear() ? [] : [String(day.getFullYear())];
  return [part({ weekday: 'short' }), String(day.getDate()), part({ month: 'short' }), ...year].join(' ');
}

function timeText(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
}

export function whenText(seconds: number): string {
  const when = new Date(seconds * 1000);
  const day = when.toLocaleDateString(undefined, { month: 'short', day: 'numeric' });
  return daysAgo(seconds, new Date()) === 0 ? timeText(seconds) : `${day}, ${timeText(seconds)}`;
}

/** Return what a row is known by: its user's name for it, then its cell or script. */
export function whatText(record: RunRecord): string {
  return [record.name ?? '', cellText(record)].filter((part) => part !== '').join(' \u00b7 ');
}

/** Return the second line: what tells the run from others comes first, since a narrow list cuts the end. */
export function detail(record: RunRecord, texts: Pick<RowTexts, 'loss'>): string {
  const parts = [
    timeText(record.start_s),
    record.seconds === null ? '' : duration(record.seconds),
    record.loss === null ? '' : texts.loss(loss(record.loss)),
    record.tags.join(', '),
  ];
  return parts.filter((part) => part !== '').join(' \u00b7 ');
}

/** Return all that a list has no room for; the id first. */
function titleOf(record: RunRecord, texts: Pick<RowTexts, 'ranks' | 'word'>): string {
  const ranks = texts.ranks(compactRanks(record.ranks), record.ranks.length);
  const known = [record.run, texts.word(record.state), whatText(record), ranks, record.model ?? '', record.tags.join(', '), record.note ?? ''];
  return known.filter((part) => part !== '').join('\n');
}
