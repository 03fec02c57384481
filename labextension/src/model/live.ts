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
  /** `awake` of the viewers have the events while the page is hidden, too. */
  private readonly runs = new Map<string, { live: LiveRun; viewers: number; awake: number }>();
  private isPaused = false;

  constructor(private readonly wire: RunWire) {}

  /** Return a run's model, which is updated until as many `close` calls have come. */
  open(run: string, isAwake = false): LiveRun {
    const found = this.runs.get(run);
    if (found === undefined) {
      return this.begin(new LiveRun(run), isAwake);
    }
    found.viewers++;
    if (isAwake && found.awake++ === 0 && this.isPaused) {
      this.wire.watch(run, found.live.feed.next);
    }
    return found.live;
  }

  /** Resume a run that was closed, from its model's last event. */
  reopen(live: LiveRun): LiveRun {
    if (this.runs.has(live.run)) {
      return this.open(live.run);
    }
    return this.begin(live, false);
  }

  close(live: LiveRun, isAwake = false): void {
    const found = this.runs.get(live.run);
    if (found === undefined) {
      return;
    }
    found.awake -= isAwake ? 1 : 0;
    if (--found.viewers > 0) {
      if (isAwake && this.isPaused && found.awake === 0) {
        this.wire.unwatch(live.run);
      }
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
    for (const [run, { awake }] of this.runs) {
      if (awake === 0) {
        this.wire.unwatch(run);
      }
    }
  }

  /** Resume: request the events since. */
  resume(): void {
    this.isPaused = false;
    this.reconnect();
  }

  /** The connection is there again: request the events since of what is not paused. */
  reconnect(): void {
    for (const { live, awake } of this.runs.values()) {
      if (!this.isPaused || awake > 0) {
        this.wire.watch(live.run, live.feed.next);
      }
    }
  }

  private begin(live: LiveRun, isAwake: boolean): LiveRun {
    this.runs.set(live.run, { live, viewers: 1, awake: isAwake ? 1 : 0 });
    if (!this.isPaused || isAwake) {
      this.wire.watch(live.run, live.feed.next);
    }
    return live;
  }
}
