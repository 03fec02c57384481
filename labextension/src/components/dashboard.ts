// The parts of the dashboard, and when they are drawn.
import type { RunModel } from '../model/run';
import { Charts } from './charts';
import { h } from './dom';
import { Header } from './header';
import { LogPane } from './logs';
import { RankTable } from './ranks';
import { Strip } from './strip';
import { followTheme, type Palette, readPalette } from './theme';

/** From so many ranks on a strip of cells stands above the table. */
const STRIP_FROM = 17;
/** Updates come twice a second and samples once: of four updates two draw the ranks, and two half of the charts each. */
const TURNS = 4;
/** When no update follows for so long, what its turn left out is drawn. */
const SETTLE_MS = 1500;

export class Dashboard {
  readonly element: HTMLElement;
  private readonly header = new Header();
  private readonly strip: Strip;
  private readonly table = new RankTable();
  private readonly charts = new Charts();
  private readonly logs = new LogPane();
  private palette: Palette | null = null;
  private model: RunModel | null = null;
  private isVisible = true;
  private isStale = false;
  /** Whether the next drawing only goes on from the last one. */
  private isFollowing = false;
  private turn = 0;
  private frame = 0;
  private settling = 0;
  private readonly ends: (() => void)[] = [];

  constructor() {
    this.strip = new Strip((rank) => this.logs.showRank(rank));
    const ranks = h('section', { class: 'ddl-ranks', 'aria-label': 'Ranks' }, this.strip.element, this.table.element);
    this.element = h(
      'div',
      { class: 'ddl-dashboard', role: 'region', 'aria-label': 'Run dashboard' },
      this.header.element,
      ranks,
      this.charts.element,
      this.logs.element,
    );
    // JupyterLab's own keys are not meant where one types or moves in here.
    this.element.addEventListener('keydown', (event) => event.stopPropagation());
    this.element.setAttribute('data-lm-suppress-shortcuts', 'true');
  }

  /** Call it once the element is in the page. */
  attach(): void {
    const themed = followTheme(this.element, () => {
      this.palette = null;
      this.draw();
    });
    const resized = new ResizeObserver(() => {
      this.charts.resize();
      this.table.resize();
      this.logs.resize();
      this.draw();
    });
    resized.observe(this.element);
    const seen = new IntersectionObserver((entries) => {
      this.isVisible = entries.at(-1)?.isIntersecting ?? true;
      if (this.isVisible && this.isStale) {
        this.draw();
      }
    });
    seen.observe(this.element);
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

  /** Draw in the next frame; what nobody sees waits until it is seen. */
  private draw(): void {
    this.isStale = true;
    if (!this.isVisible || this.frame !== 0) {
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
      // JupyterLab hides the page while it changes the theme. What is hidden for longer is soon told to be invisible.
      this.draw();
      return;
    }
    const began = performance.now();
    this.isStale = false;
    this.palette ??= readPalette(this.element);
    const isWhole = !this.isFollowing || model.isOver;
    this.turn = (this.turn + 1) % TURNS;
    if (isWhole || this.turn % 2 === 0) {
      this.drawRanks(model, this.palette);
    }
    if (isWhole || this.turn % 2 === 1) {
      this.charts.update(model, this.palette, isWhole ? null : (this.turn - 1) / 2);
    }
    this.logs.update(model.logs);
    this.isFollowing = false;
    clearTimeout(this.settling);
    if (!isWhole) {
      this.settling = window.setTimeout(() => this.draw(), SETTLE_MS);
    }
    performance.measure('ddl-draw', { start: began });
  }

  private drawRanks(model: RunModel, palette: Palette): void {
    const isMany = model.ranks.length >= STRIP_FROM;
    this.strip.element.hidden = !isMany;
    this.header.update(model);
    if (isMany) {
      this.strip.update(model, palette);
    }
    this.table.update(model);
  }
}
