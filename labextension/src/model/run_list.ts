// The runs that a list holds, newest first: what is read of its head is joined to what was read before. No DOM.
import type { RunPage, RunRecord } from './runs';

export class RunList {
  runs: RunRecord[] = [];
  /** The run before which the next page begins; null where there is none. */
  next: string | null = null;

  /** Begin with a page. */
  reset({ runs, next }: RunPage): void {
    this.runs = [...runs];
    this.next = next;
  }

  /** Take the page that comes after what there is. */
  append({ runs, next }: RunPage): void {
    const there = new Set(this.runs.map(({ run }) => run));
    this.runs.push(...runs.filter(({ run }) => !there.has(run)));
    this.next = next;
  }

  /** Whether a head of the list reaches what there is, so that nothing is missing between the two. */
  reaches({ runs, next }: RunPage): boolean {
    const there = new Set(this.runs.map(({ run }) => run));
    return next === null || runs.some(({ run }) => there.has(run));
  }

  /** Take a head that reaches what there is; return how many runs are above what was first. */
  join(head: RunPage): number {
    const newest = new Set(head.runs.map(({ run }) => run));
    const first = this.runs.find(({ run }) => newest.has(run));
    const last = this.runs.findLastIndex(({ run }) => newest.has(run));
    const rest = last < 0 ? [] : this.runs.slice(last + 1);
    this.runs = [...head.runs, ...rest];
    this.next = rest.length === 0 ? head.next : this.next;
    return first === undefined ? 0 : head.runs.findIndex(({ run }) => run === first.run);
  }

  /** Take what a run has become, where it is in the list. */
  update(record: RunRecord): void {
    this.runs = this.runs.map((one) => (one.run === record.run ? record : one));
  }

  remove(run: string): void {
    this.runs = this.runs.filter((one) => one.run !== run);
  }
}
