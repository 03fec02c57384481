// Any rank's whole log, or all ranks' merged by time, however long: only what is near the place one looks at is fetched.
import { h, setAttribute, setHidden, setText } from '../components/dom';
import { size } from '../components/format';
import { keepTyping } from '../components/keys';
import { VirtualRows } from '../components/virtual';
import type { Direction, LogModel, LogTarget } from '../model/log_model';
import type { LogWindow } from '../model/log_window';
import { idText } from '../model/runs';
import { type Server, sentence } from '../model/server';
import type { Context } from './context';
import { LogBar } from './log_bar';
import { LivePage } from './page';

const ROW_HEIGHT = 18;
// So near to an end of what is held, more is fetched.
const NEAR_ROWS = 60;
const FOLLOW_MS = 1000;
// As many as there are colours for lines of charts.
const COLOURS = 7;
const CHARACTERS_BESIDE = 24;

interface LogContext extends Context {
  readonly server: Pick<Server, 'fileUrl'>;
}

export class LogPage extends LivePage {
  private readonly bar: LogBar;
  private readonly note = h('p', { class: 'ddl-hint', role: 'note', hidden: '' });
  private readonly space = h('div', { class: 'ddl-space' });
  private readonly body: HTMLElement;
  private readonly rows: VirtualRows;
  /** What it shows first is there. */
  private readonly opened: Promise<void>;
  private longest = 0;
  private timer = 0;

  constructor(
    private readonly context: LogContext,
    private readonly model: LogModel,
    private readonly changed: () => void = () => undefined,
  ) {
    super();
    const { trans } = context;
    this.addClass('ddl-log-page');
    this.bar = new LogBar(trans, {
      choose: (rank) => this.choose(rank),
      readSizes: () => void this.attempt(() => this.readSizes()),
      open: () => void this.open(),
      follow: () => void this.toEnd(),
      seek: (share) => void this.seek(share),
      search: (target, direction) => void this.search(target, direction),
      changePattern: () => model.searchAgain(),
    });
    this.body = h('div', { class: 'ddl-lines', role: 'log', 'aria-live': 'off', 'aria-label': trans.__('Log'), tabindex: '0' }, this.space);
    this.rows = new VirtualRows(this.body, this.space, ROW_HEIGHT, makeLine, (row, at) => this.fill(row, at), () => void this.scrolled());
    this.node.append(h('div', { class: 'ddl-page-bar' }, h('h2', { title: model.run }, idText(model.run)), ...this.bar.heading), this.bar.element, this.note, this.body);
    this.bar.showRanks([], model.rank);
    model.looked.connect((_, share) => this.bar.showLooked(share));
    this.node.addEventListener('keydown', (event) => this.onKey(event));
    keepTyping(this.node);
    this.opened = this.begin();
  }

  protected override onResize(): void {
    this.rows.resize();
    this.draw();
  }

  protected override watch(): void {
    window.clearInterval(this.timer);
    this.timer = window.setInterval(() => void (this.bar.follow.checked && !document.hidden && this.readOn()), FOLLOW_MS);
  }

  protected override rest(): void {
    window.clearInterval(this.timer);
  }

  get run(): string {
    return this.model.run;
  }

  /** The rank whose log is shown; null for all. */
  get rank(): number | null {
    return this.model.rank;
  }

  /** Show another rank's log, unless it is there. */
  async showRank(rank: number | null): Promise<void> {
    if (this.rank !== rank) {
      this.model.choose(rank);
      await this.begin();
    }
  }

  /** Show the last line of a rank's log that looks like an error. */
  async showLastError(rank: number | null): Promise<void> {
    await this.opened;
    await this.showRank(rank);
    this.model.searchAgain();
    await this.search('error', 'previous');
  }

  private choose(rank: number | null): void {
    this.model.choose(rank);
    void this.open();
  }

  private async begin(): Promise<void> {
    await this.attempt(() => this.readSizes());
    await this.open();
  }

  /** Read which ranks have a log, and how long each is, and offer these. */
  private async readSizes(): Promise<void> {
    await this.model.readSizes();
    this.bar.showRanks(this.model.sizes, this.model.rank);
  }

  private async open(): Promise<void> {
    const { model, bar } = this;
    model.open(bar.isStderr, bar.filter);
    bar.showFile(this.context.server.fileUrl(model.run, 'log-file', model.rank === null ? {} : { rank: model.rank }));
    this.changed();
    await this.toEnd();
  }

  private async toEnd(): Promise<void> {
    await this.attempt(async () => {
      if (await this.model.toEnd()) {
        this.bar.follow.checked = true;
        this.draw();
      }
    });
  }

  private async seek(share: number): Promise<void> {
    this.bar.follow.checked = false;
    await this.attempt(async () => {
      const index = await this.model.seek(share);
      if (index !== null) {
        this.draw();
        this.rows.scrollTo(index);
      }
    });
  }

  private async search(target: LogTarget, direction: Direction): Promise<void> {
    const { model, bar } = this;
    if (target === 'error' && model.isFiltered) {
      // An error may be on a line that is left out.
      bar.showAll();
      model.open(bar.isStderr);
    }
    bar.setSearching(true);
    await this.attempt(async () => {
      const index = await model.search(target, direction);
      if (index === 'absent') {
        bar.showNote(this.absent(direction));
        this.drawPlace();
      } else if (index !== 'overtaken') {
        bar.follow.checked = false;
        this.draw();
        this.rows.scrollTo(index);
      }
    });
    bar.setSearching(false);
  }

  private absent(direction: Direction): string {
    const { trans } = this.context;
    return direction === 'next'
      ? trans.__('Not found below. Searching again starts at the top.')
      : trans.__('Not found above. Searching again starts at the end.');
  }

  private onKey(event: KeyboardEvent): void {
    const isFind = (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key.toLowerCase() === 'f';
    const isAgain = event.key === 'F3' && !event.ctrlKey && !event.metaKey && !event.altKey;
    if (!isFind && !isAgain) {
      return;
    }
    // Neither is a key of JupyterLab's here; the browser would look in the page, which has few of the lines.
    event.preventDefault();
    event.stopPropagation();
    if (isFind || this.bar.pattern.text === '') {
      this.bar.focusField();
    } else {
      void this.search(this.bar.pattern, event.shiftKey ? 'previous' : 'next');
    }
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
    const { follow } = this.bar;
    const top = this.body.scrollTop / ROW_HEIGHT;
    const bottom = top + this.body.clientHeight / ROW_HEIGHT;
    follow.checked = follow.checked && log.isAtEnd && bottom >= log.length - 2;
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
    this.rows.update(log.length);
    this.rows.shift(lines);
    this.drawPlace();
  }

  private draw(): void {
    this.rows.update(this.model.log.length, this.bar.follow.checked);
    this.drawPlace();
  }

  private drawPlace(): void {
    const { log } = this.model;
    const { trans } = this.context;
    const { follow } = this.bar;
    const index = Math.floor(this.body.scrollTop / ROW_HEIGHT);
    const share = follow.checked ? 1 : log.shareAt(index);
    const at = log.line(follow.checked ? log.length - 1 : index)?.atUs ?? 0;
    const place = at > 0 ? new Date(at / 1000).toLocaleTimeString() : size(share * log.bytes);
    const where = at > 0 ? trans.__('%1 · %2', place, size(log.bytes)) : trans.__('%1 of %2', place, size(log.bytes));
    this.bar.showPlace(share, log.bytes === 0 ? trans.__('Nothing was written.') : where);
    setText(this.note, this.roughness());
    setHidden(this.note, log.timed === null || log.timed === 'marked');
  }

  /** Say how well the ranks of a run are merged that did not note when they wrote. */
  private roughness(): string {
    const { trans } = this.context;
    return this.model.log.timed === 'events'
      ? trans.__('These logs have no times of their own: the lines are ordered by when the run’s events report them.')
      : trans.__('These logs have no times: the lines are ordered as if each rank had written at an even rate.');
  }

  private fill(row: HTMLElement, at: number): void {
    const { log, found } = this.model;
    const line = log.line(at);
    const [number, rank, text] = row.children as unknown as [HTMLElement, HTMLElement, HTMLElement];
    const length = line?.text.length ?? 0;
    if (length > this.longest) {
      // As wide as the longest line that was seen, so that one can scroll to its end.
      this.longest = length;
      this.space.style.minWidth = `${length + CHARACTERS_BESIDE}ch`;
    }
    setText(number, line?.number == null ? '' : String(line.number));
    setText(rank, this.model.rank === null && line !== undefined ? String(line.rank) : '');
    setHidden(rank, this.model.rank !== null);
    setAttribute(rank, 'class', `ddl-line-rank ddl-rank-colour-${((line?.rank ?? 0) % COLOURS) + 1}`);
    setText(text, line?.text ?? '');
    const isFound = found !== null && line?.place === found;
    setAttribute(row, 'class', `ddl-line${isFound ? ' ddl-found' : ''}${line?.place === '' ? ' ddl-unfinished' : ''}`);
  }

  private async attempt(act: () => Promise<void>): Promise<void> {
    this.bar.showFault('');
    try {
      await act();
    } catch (error) {
      this.bar.showFault(sentence(error));
    }
  }
}

function makeLine(): HTMLElement {
  return h('div', { class: 'ddl-line' }, h('span', { class: 'ddl-line-number' }), h('span', { class: 'ddl-line-rank' }), h('span', { class: 'ddl-line-text' }));
}
