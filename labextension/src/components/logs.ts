// The log pane. Every line is text, whatever it holds.
import { EVERYTHING, linesThrough, type LogFilter, type LogStore, parseRanks, type ShownLines } from '../model/logs';
import type { Words } from '../model/words';
import { h, setAttribute, setText } from './dom';
import { whole } from './format';
import { VirtualRows } from './virtual';

const ROW_HEIGHT = 18;
// Lines looked at in one go when a filter is new: about what a frame has time for.
const PER_FRAME = 20_000;
const COPIED_MS = 1500;

export class LogPane {
  readonly element: HTMLElement;
  private readonly ranks: HTMLInputElement;
  private readonly pattern: HTMLInputElement;
  private readonly stderr = h('input', { type: 'checkbox' });
  private readonly follow = h('input', { type: 'checkbox' });
  private readonly jump: HTMLButtonElement;
  private readonly copy: HTMLButtonElement;
  private readonly count = h('span', { role: 'status' });
  private readonly countBox = h('span', { class: 'ddl-count' }, this.count);
  private readonly fault = h('span', { class: 'ddl-fault', role: 'alert' });
  private readonly rows: VirtualRows;
  private readonly body: HTMLElement;
  private store: LogStore | null = null;
  private filter: LogFilter = EVERYTHING;
  private lines: ShownLines | null = null;
  private timer = 0;

  constructor(private readonly trans: Words) {
    const example = trans.__('all ranks: 0-3, 7');
    this.ranks = h('input', { type: 'text', placeholder: example, 'aria-label': trans.__('Ranks to show'), size: '14' });
    const expression = trans.__('regular expression');
    this.pattern = h('input', { type: 'text', placeholder: expression, 'aria-label': trans.__('Lines that match'), spellcheck: 'false' });
    this.jump = h('button', { class: 'ddl-button' }, trans.__('First error'));
    this.copy = h('button', { class: 'ddl-button' }, trans.__('Copy'));
    this.follow.checked = true;
    const space = h('div', { class: 'ddl-space' });
    this.body = h('div', { class: 'ddl-lines', role: 'log', 'aria-live': 'off', 'aria-label': trans.__('Output of the ranks'), tabindex: '0' }, space);
    this.rows = new VirtualRows(this.body, space, ROW_HEIGHT, makeLine, (row, index) => this.fill(row, index), (isAtEnd) => this.scrolled(isAtEnd));
    const bar = h(
      'div',
      { class: 'ddl-log-bar', role: 'toolbar', 'aria-label': trans.__('Log') },
      h('h3', { class: 'ddl-chart-title' }, trans.__('Log')),
      this.ranks,
      this.pattern,
      h('label', {}, this.stderr, trans.__('stderr only')),
      h('label', {}, this.follow, trans.__('follow')),
      this.jump,
      this.copy,
      this.countBox,
      this.fault,
    );
    this.element = h('section', { class: 'ddl-log', 'aria-label': trans.__('Log') }, bar, this.body);
    for (const input of [this.ranks, this.pattern, this.stderr]) {
      input.addEventListener('input', () => this.readFilter());
    }
    this.follow.addEventListener('change', () => this.draw());
    this.jump.addEventListener('click', () => this.jumpToError());
    this.copy.addEventListener('click', () => void this.copyLines());
  }

  update(store: LogStore): void {
    if (this.store !== store) {
      this.store = store;
      this.lines = linesThrough(store, this.filter);
    }
    this.draw();
  }

  /** The one rank that is shown; null for more. */
  get rank(): number | null {
    const [rank, ...more] = this.filter.ranks ?? [];
    return rank === undefined || more.length > 0 ? null : rank;
  }

  resize(): void {
    this.rows.resize();
  }

  destroy(): void {
    cancelAnimationFrame(this.timer);
  }

  showRank(rank: number): void {
    this.ranks.value = String(rank);
    this.readFilter();
    this.body.focus({ preventScroll: true });
    this.element.scrollIntoView({ block: 'nearest' });
  }

  private readFilter(): void {
    const ranks = parseRanks(this.ranks.value);
    const pattern = parsePattern(this.pattern.value);
    setAttribute(this.ranks, 'aria-invalid', String(ranks === undefined));
    setAttribute(this.pattern, 'aria-invalid', String(typeof pattern === 'string'));
    const rule = ranks === undefined ? this.trans.__('Ranks must be like 0-3, 7.') : typeof pattern === 'string' ? pattern : '';
    setText(this.fault, rule);
    if (ranks === undefined || typeof pattern === 'string') {
      return;
    }
    this.filter = { ranks, pattern, stderrOnly: this.stderr.checked };
    if (this.store !== null) {
      this.lines = linesThrough(this.store, this.filter);
      this.draw();
    }
  }

  private draw(): void {
    const { store, lines } = this;
    if (store === null || lines === null) {
      return;
    }
    const isBehind = lines.advance(PER_FRAME);
    if (isBehind) {
      cancelAnimationFrame(this.timer);
      this.timer = requestAnimationFrame(() => this.draw());
    }
    const total = store.end - store.first;
    const missing = missingText(store, this.trans);
    const all = this.trans.__('%1 lines', whole(total));
    const shown = lines.length === total ? all : this.trans.__('%1 of %2', whole(lines.length), all);
    setText(this.count, missing === '' ? shown : this.trans.__('%1, %2 only in the log files', shown, missing));
    this.countBox.classList.toggle('ddl-long', missing !== '');
    this.jump.disabled = store.errorLine === null;
    this.rows.update(lines.length, this.follow.checked);
  }

  private scrolled(isAtEnd: boolean): void {
    // Scrolling up is to stop following.
    if (this.follow.checked && !isAtEnd) {
      this.follow.checked = false;
    }
  }

  private jumpToError(): void {
    const number = this.store?.errorLine ?? null;
    if (number === null || this.store === null) {
      return;
    }
    if (this.filter.ranks !== null || this.filter.pattern !== null) {
      this.ranks.value = this.pattern.value = '';
      this.readFilter();
    }
    while (this.lines?.advance() === true);
    this.follow.checked = false;
    this.draw();
    this.rows.scrollTo(this.lines?.placeOf(number) ?? 0);
    this.body.focus({ preventScroll: true });
  }

  private async copyLines(): Promise<void> {
    const { lines } = this;
    if (lines === null) {
      return;
    }
    const text = Array.from({ length: lines.length }, (_, at) => {
      const line = lines.at(at);
      return line === undefined ? '' : `${line.rank === null ? '' : `[${line.rank}] `}${line.text}\n`;
    }).join('');
    const isCopied = await copyText(text);
    setText(this.copy, isCopied ? this.trans.__('Copied') : this.trans.__('Not allowed'));
    setTimeout(() => setText(this.copy, this.trans.__('Copy')), COPIED_MS);
  }

  private fill(row: HTMLElement, index: number): void {
    const line = this.lines?.at(index);
    if (line === undefined) {
      return;
    }
    setAttribute(row, 'class', `ddl-line ddl-${line.kind}`);
    setText(row.firstElementChild as HTMLElement, line.rank === null ? '' : String(line.rank));
    setText(row.lastElementChild as HTMLElement, line.text);
  }
}

/** What the page does not have of the logs: lines before its first, bytes that were skipped. */
function missingText(store: LogStore, trans: Words): string {
  const older = store.first > 0 ? trans.__('%1 older ones', whole(store.first)) : '';
  const skipped = store.skippedBytes > 0 ? trans.__('%1 bytes more', whole(store.skippedBytes)) : '';
  return older !== '' && skipped !== '' ? trans.__('%1 and %2', older, skipped) : `${older}${skipped}`;
}

function makeLine(): HTMLElement {
  return h('div', { class: 'ddl-line' }, h('span', { class: 'ddl-line-rank' }), h('span', { class: 'ddl-line-text' }));
}

/** Return the expression, null for none, or what is wrong with it. */
function parsePattern(text: string): RegExp | null | string {
  if (text === '') {
    return null;
  }
  try {
    return new RegExp(text);
  } catch (error) {
    return error instanceof SyntaxError ? error.message : String(error);
  }
}

async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // A page without https has no clipboard of that kind.
    const area = h('textarea', { style: 'position:fixed;opacity:0' });
    area.value = text;
    document.body.append(area);
    area.select();
    const isCopied = document.execCommand('copy');
    area.remove();
    return isCopied;
  }
}
