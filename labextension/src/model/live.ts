// The runs that are shown: each is watched once, until it is shown no more. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import { Feed } from './feed';
import type { RunModel } from './run';

/** What goes to the hub. */
export interface RunWire {
  watch(run: string, next: number): void;
  unwatch(run: string): void;
  taken(run: string, next: number): void;
}

/** A live run, or its replay. */
export class LiveRun {
  readonly feed = new Feed();
  private readonly _changed = new Signal<this, void>(this);

  constructor(readonly run: string) {}

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get model(): RunModel {
    return this.feed.model;
  }

  /** @param ended how the run ended, where no event says so. */
  take(bytes: DataView, ended: string | null): void {
    const isNew = this.feed.takeBatch(bytes);
    const isEnd = ended !== null && !this.model.isOver;
    if (isEnd) {
      this.model.endAs(ended);
    }
    if (isNew || isEnd) {
      this._changed.emit();
    }
  }
}

export class LiveRuns {
  private readonly runs = new Map<string, { live: LiveRun; viewers: number }>();
  private isPaused = false;

  constructor(private readonly wire: RunWire) {}

  /** Return a run's model, which is updated until as many `close` calls have come. */
  open(run: string): LiveRun {
    const found = this.runs.get(run);
    if (found !== undefined) {
      found.viewers++;
      return found.live;
    }
    const live = new LiveRun(run);
    return this.begin(live);
  }

  /** Resume a run that was closed, from its model's last event. */
  reopen(live: LiveRun): LiveRun {
    if (this.runs.has(live.run)) {
      return this.open(live.run);
    }
    return this.begin(live);
  }

  close(live: LiveRun): void {
    const found = this.runs.get(live.run);
    if (found === undefined || --found.viewers > 0) {
      return;
    }
    this.runs.delete(live.run);
    this.wire.unwatch(live.run);
  }

  handle(run: string, bytes: DataView, ended: string | null = null): void {
    const live = this.runs.get(run)?.live;
    if (live === undefined) {
      return;
    }
    live.take(bytes, ended);
    this.wire.taken(run, live.feed.next);
  }

  /** Pause: the page is hidden. */
  pause(): void {
    this.isPaused = true;
    for (const run of this.runs.keys()) {
      this.wire.unwatch(run);
    }
  }

  /** Resume, or reconnect: request the events since. */
  resume(): void {
    this.isPaused = false;
    for (const { live } of this.runs.values()) {
      this.wire.watch(live.run, live.feed.next);
    }
  }

  private begin(live: LiveRun): LiveRun {
    this.runs.set(live.run, { live, viewers: 1 });
    if (!this.isPaused) {
      this.wire.watch(live.run, live.feed.next);
    }
    return live;
  }
}
