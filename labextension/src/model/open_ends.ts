// Runs without an end event: their kernel died, or no page was open then. Their folders have the outcome. No DOM.
import type { CellMarks } from './cell_marks';
import type { HubModel } from './hub';
import type { KernelState } from './hub_messages';
import type { Notice } from './notice';
import type { RunRecord } from './runs';
import { compactRanks } from './stacks';

const RUNNING = 'running';
export const CUT_OFF = 'cut off';
/** A kernel that has let go of the hub may live, and its run with it: it is looked at again. */
const LOOK_MS = 2000;

interface Open {
  readonly notice: Notice;
  /** Whether this page saw it run: what it came to is then news. */
  readonly isSeen: boolean;
}

export class OpenEnds {
  private readonly open = new Map<string, Open>();
  private timer: ReturnType<typeof setTimeout> | undefined;

  /**
   * @param ask returns what a run's folder says; null where it was deleted.
   * @param text what is said of a run that its kernel's end cut off.
   */
  constructor(
    private readonly hub: HubModel,
    private readonly marks: CellMarks,
    private readonly ask: (run: string) => Promise<RunRecord | null>,
    private readonly text: string,
  ) {
    hub.gone.connect((_, state) => this.lose(state));
    hub.noticed.connect((_, { run, state }) => void (state !== RUNNING && this.open.delete(run)));
  }

  /** Look at the runs whose marks say that they run, after the page was loaded or the connection was lost. */
  check(): void {
    for (const { notice } of this.marks.all()) {
      if (notice.state === RUNNING && !this.open.has(notice.run)) {
        this.open.set(notice.run, { notice, isSeen: false });
      }
    }
    this.later(0);
  }

  private lose({ kernel, run }: KernelState): void {
    const notices = this.marks.all().map(({ notice }) => notice);
    const ran = notices.filter((notice) => notice.kernel === kernel && notice.state === RUNNING);
    for (const notice of ran) {
      this.open.set(notice.run, { notice, isSeen: true });
    }
    if (run !== null && !this.open.has(run)) {
      const notice: Notice = { type: 'run_notice', kernel, run, state: RUNNING, cell_id: null, ranks: '', seconds: null, fault: null };
      this.open.set(run, { notice, isSeen: true });
    }
    this.later(0);
  }

  private later(ms: number): void {
    clearTimeout(this.timer);
    this.timer = this.open.size === 0 ? undefined : setTimeout(() => void this.look(), ms);
  }

  private async look(): Promise<void> {
    if (!this.hub.isConnected) {
      // All is looked at again once it is.
      return;
    }
    for (const [run, { notice, isSeen }] of [...this.open]) {
      const record = await this.ask(run).catch(() => undefined);
      if (!this.open.has(run) || record === undefined) {
        continue;
      }
      if (record?.state !== RUNNING) {
        this.open.delete(run);
        this.end(notice, record, isSeen);
      } else if (this.hub.kernels.get(notice.kernel)?.run != null) {
        // Its kernel lives, and will say what comes of it.
        this.open.delete(run);
      }
    }
    this.later(LOOK_MS);
  }

  private end(notice: Notice, record: RunRecord | null, isSeen: boolean): void {
    if (record === null || !isSeen) {
      this.marks.settle(notice.run, record);
      return;
    }
    const { state, seconds } = record;
    const ranks = notice.ranks === '' ? compactRanks(record.ranks).replaceAll(' ', '') : notice.ranks;
    this.hub.handle({ ...notice, state, seconds, ranks, fault: state === CUT_OFF ? { text: this.text } : null });
  }
}
