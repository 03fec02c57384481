// The run that a view of its kernel shows: it is watched while it is the current one.
import type { LiveRun, LiveRuns } from '../model/live';
import type { RunModel } from '../model/run';

export class FollowedRun {
  private live: LiveRun | null = null;

  /**
   * @param changed is called when the run's events come
   * @param isAwake whether they are to come while the page is hidden, too
   */
  constructor(
    private readonly runs: LiveRuns,
    private readonly changed: () => void,
    private readonly isAwake = false,
  ) {}

  get model(): RunModel | null {
    return this.live?.model ?? null;
  }

  /** Follow a run in place of the one before; null for none. */
  follow(run: string | null): void {
    if (run === (this.live?.run ?? null)) {
      return;
    }
    if (this.live !== null) {
      this.live.changed.disconnect(this.notify, this);
      this.runs.close(this.live, this.isAwake);
    }
    this.live = run === null ? null : this.runs.open(run, this.isAwake);
    this.live?.changed.connect(this.notify, this);
  }

  private notify(): void {
    this.changed();
  }
}
