// A stall of a run while it lasts, with the report of where the ranks are. No DOM.
//
// Horovod reports a stall repeatedly while a collective waits for ranks, but does not report its end. The
// kernel decides likewise: jupyter_ddl/kernel/stall_watch.py.
import type { CollectiveStalled, MetricsSample, StallReported } from './events';
import { plain } from './lines';
import { compactRanks } from './stacks';

/** A stall is over this many of its intervals, and a margin, after Horovod's last report. */
const INTERVALS = 3;
const SLACK_S = 0.5;

export class Stall {
  private last: CollectiveStalled | null = null;
  /** The step that the run had reached then. */
  private step = 0;
  /** Of each rank its first sample since, by its own clock: those of hosts differ. */
  private readonly since = new Map<number, number>();
  private text = '';
  private hasReported = false;

  /** The report, while the stall lasts; empty otherwise. */
  get report(): string {
    return this.text;
  }

  /** Which ranks wait for which, and where each is: the two parts of the report. */
  get parts(): { readonly what: string; readonly where: string } {
    const lines = this.report.split('\n').map(plain);
    const stacks = lines.findIndex((line, at) => at > 0 && !line.startsWith(' '));
    const end = stacks < 0 ? lines.length : stacks;
    return { what: lines.slice(0, end).join('\n'), where: lines.slice(end).join('\n') };
  }

  /** @param step the step that the run has reached; null before the first. */
  stalled(event: CollectiveStalled, step: number | null): void {
    if (this.last === null && this.hasReported) {
      // The kernel looks at the ranks once for each collective and the ranks that it waits for.
      this.text = again(event);
    }
    this.last = event;
    this.step = step ?? 0;
    this.since.clear();
  }

  reported({ fault }: StallReported): void {
    this.hasReported = true;
    // Reading the ranks' stacks takes seconds, in which they may have resumed.
    this.text = this.last === null ? '' : fault.text;
  }

  /** End it where a sample shows progress, or that Horovod has said nothing of it for too long. */
  sampled({ rank, at_s, step }: MetricsSample): void {
    if (this.last === null) {
      return;
    }
    const since = this.since.get(rank) ?? at_s;
    this.since.set(rank, since);
    if ((step ?? 0) > this.step || at_s - since > INTERVALS * this.last.waited_s + SLACK_S) {
      this.end();
    }
  }

  end(): void {
    this.last = null;
    this.text = '';
  }
}

function again({ missing, tensors }: CollectiveStalled): string {
  const ranks = Object.keys(missing).map(Number);
  const who = ranks.length === 0 ? 'Not every rank has' : ranks.length === 1 ? `Rank ${ranks[0]!} has not` : `Ranks ${compactRanks(ranks)} have not`;
  return `The cell has stalled again. ${who} entered: ${tensors.join(', ')}`;
}
