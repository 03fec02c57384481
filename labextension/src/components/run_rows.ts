// Runs in a narrow list, two lines each.
import { cellText, type RunRecord } from '../model/runs';
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
  'timed out': ['◇', 'straggler'],
  stalled: ['▲', 'straggler'],
};

export function signOf(state: string): readonly [sign: string, state: string] {
  return STATES[state] ?? ['○', 'waiting'];
}

export function makeRunRow(open: (row: HTMLElement) => void, choose: (row: HTMLElement, isChosen: boolean) => void): HTMLElement {
  // The list is one stop of the Tab key; arrows move in it, Space ticks and Enter opens.
  const box = h('input', { type: 'checkbox', tabindex: '-1' });
  const when = h('span', { class: 'ddl-run-when' });
  const state = h('span', { class: 'ddl-rank-state' });
  const rate = h('span', { class: 'ddl-rank-rate' });
  const more = h('span', { class: 'ddl-rank-place' });
  const button = h('button', { type: 'button', class: 'ddl-run-open', tabindex: '-1' }, when, state, rate, more);
  const row = h('div', { class: 'ddl-run-row', role: 'listitem' }, box, button);
  button.addEventListener('click', () => open(row));
  box.addEventListener('change', () => choose(row, box.checked));
  return row;
}

export interface RowTexts {
  /** Translates the word for a state. */
  readonly word: (text: string) => string;
  readonly choose: (when: string, state: string) => string;
}

export function fillRunRow(row: HTMLElement, record: RunRecord, isChosen: boolean, { word, choose }: RowTexts): void {
  const [box, button] = [...row.children] as [HTMLInputElement, HTMLElement];
  const [when, state, rate, more] = [...button.children] as HTMLElement[];
  const [sign, looks] = signOf(record.state);
  box.checked = isChosen;
  const when_ = whenText(record.start_s);
  setAttribute(box, 'aria-label', `${choose(when_, word(record.state))} (${record.run})`);
  setAttribute(button, 'title', record.run);
  setText(when!, when_);
  setText(state!, `${sign} ${word(record.state)}`);
  setAttribute(state!, 'class', `ddl-rank-state ddl-state-${looks}`);
  setText(rate!, record.samples_per_s === null ? '' : rateText(record.samples_per_s));
  setText(more!, detail(record));
}

export function whenText(seconds: number): string {
  const when = new Date(seconds * 1000);
  const isToday = when.toDateString() === new Date().toDateString();
  const time = when.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
  return isToday ? time : `${when.toLocaleDateString(undefined, { month: 'short', day: 'numeric' })}, ${time}`;
}

/** Return the second line: what tells the run from others comes first, since a narrow list cuts the end. */
export function detail(record: RunRecord): string {
  const parts = [
    record.name ?? '',
    cellText(record),
    `${record.ranks.length === 1 ? 'rank' : 'ranks'} ${compactRanks(record.ranks)}`,
    record.seconds === null ? '' : duration(record.seconds),
    record.loss === null ? '' : `loss ${loss(record.loss)}`,
    record.model ?? '',
    record.tags.join(', '),
  ];
  return parts.filter((part) => part !== '').join(' · ');
}
