// A run's dashboard on the hub's events, which come only while it is visible.
import { Dashboard } from '../components/dashboard';
import type { LiveRun, LiveRuns } from '../model/live';
import type { Context } from './context';

export class RunView {
  private readonly dashboard: Dashboard;
  private live: LiveRun | null = null;
  private isWatching = false;
  private isAttached = false;

  private readonly runs: LiveRuns;

  /** @param changed called with the run after each change. */
  constructor(
    { runs, trans }: Pick<Context, 'runs' | 'trans'>,
    private readonly run: string,
    private readonly changed: (live: LiveRun) => void = () => undefined,
  ) {
    this.runs = runs;
    this.dashboard = new Dashboard(trans);
  }

  /** The one rank whose lines were chosen; null where none was. */
  get rank(): number | null {
    return this.dashboard.rank;
  }

  /** Have something stand above the log. */
  addAboveLog(element: HTMLElement): void {
    this.dashboard.addAboveLog(element);
  }

  /** Show the log, or leave its place to something else, which then gets the rank that is clicked. */
  showLog(instead: ((rank: number) => void) | null): void {
    this.dashboard.showLog(instead);
  }

  get element(): HTMLElement {
    return this.dashboard.element;
  }

  /** Call it once the element is in the page; again when it comes back there. */
  attach(): void {
    if (!this.isAttached) {
      this.isAttached = true;
      this.dashboard.attach();
    }
  }

  watch(): void {
    if (this.isWatching) {
      return;
    }
    this.isWatching = true;
    const { runs } = this;
    this.live = this.live === null ? runs.open(this.run) : runs.reopen(this.live);
    this.live.changed.connect(this.draw, this);
    this.draw();
  }

  rest(): void {
    if (this.live !== null && this.isWatching) {
      this.isWatching = false;
      this.live.changed.disconnect(this.draw, this);
      this.runs.close(this.live);
    }
  }

  destroy(): void {
    this.rest();
    this.dashboard.destroy();
  }

  private draw(): void {
    if (this.live !== null) {
      this.dashboard.update(this.live.model);
      this.changed(this.live);
    }
  }
}
