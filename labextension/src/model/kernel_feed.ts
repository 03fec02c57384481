// A run's events as the kernel's widget gets them, unpacked only while a view shows them: where the panel is, the run is shown
// from the hub, which has the same events, and each would be handled twice. No DOM.
import { Feed, unpacked } from './feed';
import type { RunModel } from './run';

// A busy kernel does not answer; the next history comes without a request.
const ASK_AGAIN_MS = 5000;
/** The newest batches that wait for a view. One that comes later still needs a history. */
const MAX_WAITING = 32;

export class KernelFeed {
  private readonly feed = new Feed();
  private isViewed = false;
  private history: DataView | null = null;
  private waiting: (DataView | null)[] = [];
  private asked = -Infinity;
  // One after the other: what comes while a history is being unpacked belongs after it.
  private taken = Promise.resolve();

  /**
   * @param changed called after each change that a view is to show.
   * @param ask asks the kernel for a history.
   */
  constructor(
    private readonly changed: () => void,
    private readonly ask: () => void,
  ) {}

  get model(): RunModel {
    return this.feed.model;
  }

  /** Say whether any view shows the run; the first one gets what has come meanwhile. */
  view(isViewed: boolean): void {
    this.isViewed = isViewed;
    this.unpack();
  }

  takeBatch(bytes: DataView | null): void {
    this.waiting.push(bytes);
    this.unpack();
  }

  /** Take all events so far. */
  takeHistory(bytes: DataView | null): void {
    this.history = bytes;
    if (!this.isViewed) {
      // It has what waits.
      this.waiting = [];
      this.feed.skip();
    }
    this.unpack();
  }

  private unpack(): void {
    const { feed, history, waiting } = this;
    if (!this.isViewed) {
      waiting.splice(0, waiting.length - MAX_WAITING);
      return;
    }
    this.history = null;
    this.waiting = [];
    if (history !== null) {
      this.inTurn(async () => feed.needsHistory && feed.takeHistory(await unpacked(history)));
    }
    for (const bytes of waiting) {
      this.inTurn(async () => feed.takeBatch(await unpacked(bytes)));
    }
  }

  private inTurn(take: () => Promise<boolean>): void {
    this.taken = this.taken
      .then(async () => {
        if (await take()) {
          this.changed();
          this.askWhereBehind();
        }
      })
      .catch((error: unknown) => console.error('jupyter_ddl:', error));
  }

  private askWhereBehind(): void {
    if (this.feed.isBehind && performance.now() - this.asked > ASK_AGAIN_MS) {
      this.asked = performance.now();
      this.ask();
    }
  }
}
