// The parts of the dashboard, and when they are drawn.
import type { RunModel } from '../model/run';
import type { Words } from '../model/words';
import { Charts } from './charts';
import { h, setHidden } from './dom';
import { Header } from './header';
import { keepTyping } from './keys';
import { LogPane } from './logs';
import { RankTable } from './ranks';
import { Strip } from './strip';
import { followTheme, type Palette, readPalette } from './theme';
import { MANY_RANKS, TURNS, turnsOf } from './turns';

/** When no update follows for so long, what its turn left out is drawn. */
const SETTLE_MS = 1500;

export class Dashboard {
  readonly element: HTMLElement;
  private readonly header: Header;
  private readonly strip: Strip;
  private readonly table: RankTable;
  private readonly charts: Charts;
  private readonly logs: LogPane;
  private readonly parts: readonly { readonly element: HTMLElement }[];
  private chooseInstead: ((rank: number) => void) | null = null;
  private palette: Palette | null = null;
  private model: RunModel | null = null;
  /** The parts that are out of sight. */
  private readonly unseen = new Set<Element>();
  private isStale = false;
  /** Whether the next drawing only continues the last one. */
  private isFollowing = false;
  private states = '';
  /** How many lines there were when the log was drawn last. */
  private lines = 0;
  private turn = 0;
  private frame = 0;
  private settling = 0;
  private readonly ends: (() => void)[] = [];

  constructor(trans: Words) {
    const choose = (rank: number): void => (this.chooseInstead === null ? this.logs.showRank(rank) : this.chooseInstead(rank));
    this.header = new Header(trans);
    this.table = new RankTable(trans, choose);
    this.charts = new Charts(trans);
    this.logs = new LogPane(trans);
    this.strip = new Strip(trans, choose);
    this.parts = [this.header, this.strip, this.table, this.charts, this.logs];
    const ranks = h('section', { class: 'ddl-ranks', 'aria-label': trans.__('Ranks') }, this.strip.element, this.table.element);
    this.element = h(
      'div',
      { class: 'ddl-dashboard', role: 'region', 'aria-label': trans.__('Run dashboard') },
      this.header.element,
      ranks,
      this.charts.element,
      this.logs.element,
    );
    keepTyping(this.element);
  }

  /** The one rank whose lines the log shows; null where it shows more. */
  get rank(): number | null {
    return this.logs.rank;
  }

  /** Have something stand above the log. */
  addAboveLog(element: HTMLElement): void {
    this.logs.element.before(element);
  }

  /** Show the log, or leave its place to something else, which then gets the rank that is clicked. */
  showLog(instead: ((rank: number) => void) | null): void {
    this.chooseInstead = instead;
    setHidden(this.logs.element, instead !== null);
  }

  /** Call it once the element is in the page. */
  attach(): void {
    const themed = followTheme(this.element, () => {
      this.palette = null;
      this.draw();
    });
    const resized = new ResizeObserver(() => {
      this.strip.resize();
      this.charts.resize();
      this.table.resize();
      this.logs.resize();
      this.draw();
    });
    resized.observe(this.element);
    const seen = new IntersectionObserver((entries) => this.look(entries));
    for (const { element } of this.parts) {
      seen.observe(element);
    }
    const shown = (): void => this.draw();
    document.addEventListener('visibilitychange', shown);
    this.ends.push(
      themed,
      () => resized.disconnect(),
      () => seen.disconnect(),
      () => document.removeEventListener('visibilitychange', shown),
    );
  }

  update(model: RunModel): void {
    this.isFollowing = this.model === model && !this.isStale;
    this.model = model;
    this.draw();
  }

  destroy(): void {
    cancelAnimationFrame(this.frame);
    clearTimeout(this.settling);
    for (const end of this.ends) {
      end();
    }
    this.charts.destroy();
    this.logs.destroy();
  }

  /** Note which parts came into sight or went out of it; what comes has missed its turns. */
  private look(entries: readonly IntersectionObserverEntry[]): void {
    let isMissed = this.isStale;
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) {
        this.unseen.add(target);
      } else if (this.unseen.delete(target)) {
        isMissed = true;
      }
    }
    if (isMissed) {
      this.draw();
    }
  }

  /** Draw in the next frame; a hidden page waits until it is visible. */
  private draw(): void {
    this.isStale = true;
    if (this.unseen.size === this.parts.length || this.frame !== 0) {
      return;
    }
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.drawNow();
    });
  }

  private drawNow(): void {
    const { model } = this;
    if (model === null) {
      return;
    }
    if (this.element.clientWidth === 0) {
      // JupyterLab hides the page while it changes the theme. A page hidden for longer is soon reported as invisible.
      this.draw();
      return;
    }
    this.isStale = false;
    this.palette ??= readPalette(this.element);
    // A rank that is marked, fails or ends, and a stall that comes or goes, is shown at once everywhere.
    const states = `${[...model.counts()].join()} ${model.stall.report}`;
    const isWhole = !this.isFollowing || model.isOver || states !== this.states;
    this.states = states;
    this.turn = (this.turn + 1) % TURNS;
    this.drawParts(model, this.palette, isWhole ? null : this.turn);
    this.isFollowing = false;
    clearTimeout(this.settling);
    if (!isWhole) {
      this.settling = window.setTimeout(() => this.draw(), SETTLE_MS);
    }
  }

  /** Draw what has its turn and is in sight, or all. */
  private drawParts(model: RunModel, palette: Palette, turn: number | null): void {
    const isMany = model.ranks.length >= MANY_RANKS;
    const turns = turnsOf(model.ranks.length, model.logs.end - this.lines);
    const has = ({ element }: { readonly element: HTMLElement }, own: readonly number[]): boolean =>
      turn === null || (own.includes(turn) && !this.unseen.has(element));
    setHidden(this.strip.element, !isMany);
    if (has(this.header, turns.header)) {
      this.header.update(model);
    }
    if (isMany && has(this.strip, turns.strip)) {
      this.strip.update(model, palette);
    }
    if (has(this.table, turns.table)) {
      this.table.update(model);
    }
    const charts = turns.charts.map((own) => has(this.charts, own));
    if (charts.includes(true)) {
      this.charts.update(model, palette, charts);
    }
    if (has(this.logs, turns.log)) {
      this.lines = model.logs.end;
      this.logs.update(model.logs);
    }
  }
}
