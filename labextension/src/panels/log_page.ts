// Any rank's whole log, however long: only what is near the place one looks at is fetched.
import { h, setAttribute, setText } from '../components/dom';
import { size } from '../components/format';
import { keepTyping } from '../components/keys';
import { VirtualRows } from '../components/virtual';
import type { LogModel } from '../model/log_model';
import type { LogWindow } from '../model/log_window';
import { sentence } from '../model/server';
import type { Context } from './context';
import { LivePage } from './page';

const ROW_HEIGHT = 18;
// So near to an end of what is held, more is fetched.
const NEAR_ROWS = 60;
const FOLLOW_MS = 1000;
const STEPS = 1000;

export class LogPage extends LivePage {
  private readonly ranks: HTMLSelectElement;
  private readonly stderr = h('input', { type: 'checkbox' });
  private readonly follow = h('input', { type: 'checkbox' });
  private readonly pattern: HTMLInputElement;
  private readonly find: HTMLButtonElement;
  private readonly place: HTMLInputElement;
  private readonly status = h('span', { class: 'ddl-count', role: 'status' });
  private readonly fault = h('span', { class: 'ddl-fault', role: 'alert' });
  private readonly space = h('div', { class: 'ddl-space' });
  private readonly body: HTMLElement;
  private readonly rows: VirtualRows;
  private longest = 0;
  private timer = 0;

  constructor(
    private readonly context: Context,
    private readonly model: LogModel,
    private readonly changed: () => void = () => undefined,
  ) {
    super();
    const { trans } = context;
    const { run, rank } = model;
    this.addClass('ddl-log-page');
    this.ranks = h('select', { 'aria-label': trans.__('Rank') }, h('option', { value: String(rank) }, trans.__('rank %1', rank)));
    this.pattern = h('input', { type: 'text', placeholder: trans.__('text'), 'aria-label': trans.__('Find a text'), spellcheck: 'false' });
    this.find = h('button', { type: 'button', class: 'ddl-button' }, trans.__('Find next'));
    this.place = h('input', { type: 'range', min: '0', max: String(STEPS), 'aria-label': trans.__('Place in the log') });
    this.body = h('div', { class: 'ddl-lines', role: 'log', 'aria-live': 'off', 'aria-label': trans.__('Log'), tabindex: '0' }, this.space);
    this.rows = new VirtualRows(this.body, this.space, ROW_HEIGHT, makeLine, (row, at) => this.fill(row, at), () => void this.scrolled());
    const bar = h(
      'div',
      { class: 'ddl-log-bar', role: 'toolbar', 'aria-label': trans.__('Log') },
      this.ranks,
      h('label', {}, this.stderr, trans.__('stderr only')),
      h('label', {}, this.follow, trans.__('follow')),
      this.pattern,
      this.find,
      this.place,
      this.status,
      this.fault,
    );
    this.node.append(h('div', { class: 'ddl-page-bar' }, h('h2', {}, trans.__('Log of %1', run))), bar, this.body);
    this.follow.checked = true;
    this.ranks.addEventListener('change', () => {
      model.choose(Number(this.ranks.value));
      void this.open();
    });
    // The logs grow, and ranks that wrote nothing have none yet: as they are when one chooses.
    for (const name of ['pointerdown', 'focus']) {
      this.ranks.addEventListener(name, () => void this.attempt(() => this.readSizes()));
    }
    this.stderr.addEventListener('change', () => void this.open());
    this.follow.addEventListener('change', () => void (this.follow.checked && this.toEnd()));
    this.place.addEventListener('input', () => void this.seek(Number(this.place.value) / STEPS));
    this.find.addEventListener('click', () => void this.search());
    this.pattern.addEventListener('input', () => model.searchAnew());
    this.pattern.addEventListener('keydown', (event) => void (event.key === 'Enter' && this.search()));
    model.searched.connect((_, bytes) => setText(this.status, trans.__('looked at %1', size(bytes))));
    keepTyping(this.node);
    void this.begin();
  }

  protected override onResize(): void {
    this.rows.resize();
    this.draw();
  }

  protected override watch(): void {
    window.clearInterval(this.timer);
    this.timer = window.setInterval(() => void (this.follow.checked && !document.hidden && this.readOn()), FOLLOW_MS);
  }

  protected override rest(): void {
    window.clearInterval(this.timer);
  }

  get run(): string {
    return this.model.run;
  }

  /** The rank whose log is shown. */
  get rank(): number {
    return this.model.rank;
  }

  /** Show another rank's log, unless it is there. */
  showRank(rank: number): void {
    if (this.rank !== rank) {
      this.model.choose(rank);
      void this.begin();
    }
  }

  private async begin(): Promise<void> {
    await this.attempt(() => this.readSizes());
    await this.open();
  }

  /** Read which ranks have a log, and how long each is, and offer these. */
  private async readSizes(): Promise<void> {
    const { trans } = this.context;
    await this.model.readSizes();
    const { sizes, rank } = this.model;
    const texts = new Map(sizes.map((log) => [String(log.rank), trans.__('rank %1 (%2)', log.rank, size(log.bytes))]));
    const shown = [...this.ranks.options];
    if (shown.length === texts.size && shown.every(({ value }) => texts.has(value))) {
      // In place: the list may be open.
      shown.forEach((option) => setText(option, texts.get(option.value)!));
    } else {
      this.ranks.replaceChildren(...[...texts].map(([value, text]) => h('option', { value }, text)));
    }
    this.ranks.value = String(rank);
  }

  private async open(): Promise<void> {
    this.model.open(this.stderr.checked);
    this.changed();
    await this.toEnd();
  }

  private async toEnd(): Promise<void> {
    await this.attempt(async () => {
      if (await this.model.toEnd()) {
        this.follow.checked = true;
        this.draw();
      }
    });
  }

  private async seek(share: number): Promise<void> {
    this.follow.checked = false;
    await this.attempt(async () => {
      const index = await this.model.seek(share);
      if (index !== null) {
        this.draw();
        this.rows.scrollTo(index);
      }
    });
  }

  private async search(): Promise<void> {
    const { model } = this;
    if (this.pattern.value === '') {
      return;
    }
    this.find.disabled = true;
    await this.attempt(async () => {
      const offset = await model.search(this.pattern.value);
      if (offset === 'absent') {
        setText(this.fault, this.context.trans.__('It stands nowhere below. The next look begins at the start.'));
      } else if (offset !== 'overtaken') {
        this.follow.checked = false;
        const index = await model.showFound(offset);
        if (index !== null) {
          this.draw();
          this.rows.scrollTo(index);
        }
      }
    });
    this.find.disabled = false;
  }

  private async readOn(): Promise<void> {
    await this.attempt(async () => {
      if ((await this.model.log.forward()) !== null) {
        this.draw();
      }
    });
  }

  private async scrolled(): Promise<void> {
    const { log } = this.model;
    const top = this.body.scrollTop / ROW_HEIGHT;
    const bottom = top + this.body.clientHeight / ROW_HEIGHT;
    this.follow.checked = this.follow.checked && log.isAtEnd && bottom >= log.length - 2;
    this.drawPlace();
    await this.attempt(async () => {
      if (bottom > log.length - NEAR_ROWS && !log.isAtEnd) {
        this.moved(-((await log.forward()) ?? 0), log);
      } else if (top < NEAR_ROWS && !log.isAtStart) {
        this.moved((await log.backward()) ?? 0, log);
      }
    });
  }

  /** Keep the same lines in sight after this many were added, or removed, before them. */
  private moved(lines: number, log: LogWindow): void {
    if (log !== this.model.log) {
      return;
    }
    this.model.moved(lines);
    this.rows.update(log.length);
    this.rows.shift(lines);
    this.drawPlace();
  }

  private draw(): void {
    this.rows.update(this.model.log.length, this.follow.checked);
    this.drawPlace();
  }

  private drawPlace(): void {
    const { log } = this.model;
    const { trans } = this.context;
    const index = Math.floor(this.body.scrollTop / ROW_HEIGHT);
    const share = log.length === 0 ? 0 : index / log.length;
    const at = this.follow.checked ? log.size : log.begin + share * (log.end - log.begin);
    this.place.value = String(log.size === 0 ? STEPS : Math.round((at / log.size) * STEPS));
    setText(this.status, log.size === 0 ? trans.__('This rank wrote nothing.') : trans.__('%1 of %2', size(at), size(log.size)));
  }

  private fill(row: HTMLElement, at: number): void {
    const text = this.model.log.line(at) ?? '';
    if (text.length > this.longest) {
      // As wide as the longest line that was seen, so that one can scroll to its end.
      this.longest = text.length;
      this.space.style.minWidth = `${text.length + 4}ch`;
    }
    setText(row, text);
    setAttribute(row, 'class', at === this.model.found ? 'ddl-line ddl-found' : 'ddl-line');
  }

  private async attempt(act: () => Promise<void>): Promise<void> {
    setText(this.fault, '');
    try {
      await act();
    } catch (error) {
      setText(this.fault, sentence(error));
    }
  }
}

function makeLine(): HTMLElement {
  return h('div', { class: 'ddl-line' });
}
