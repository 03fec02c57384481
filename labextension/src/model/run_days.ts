// Runs under the days on which they began: the rows of the list. No DOM.
import type { RunRecord } from './runs';

export type ListRow =
  | { readonly kind: 'day'; readonly id: string; readonly start_s: number }
  | { readonly kind: 'run'; readonly id: string; readonly record: RunRecord };

/** Return the rows of runs in their order: a day's before its first run. */
export function rowsOf(runs: readonly RunRecord[]): ListRow[] {
  const rows: ListRow[] = [];
  let last = '';
  for (const record of runs) {
    const day = new Date(record.start_s * 1000).toDateString();
    if (day !== last) {
      // A clock that was set back makes the same day twice.
      rows.push({ kind: 'day', id: `${day} ${record.run}`, start_s: record.start_s });
      last = day;
    }
    rows.push({ kind: 'run', id: record.run, record });
  }
  return rows;
}

/** Return how many days before `now` a time was: 0 for today, 1 for yesterday. */
export function daysAgo(start_s: number, now: Date): number {
  const day = new Date(start_s * 1000);
  // Of two midnights: a day may have 23 or 25 hours.
  const midnight = (date: Date): number => Date.UTC(date.getFullYear(), date.getMonth(), date.getDate());
  return Math.round((midnight(now) - midnight(day)) / 86_400_000);
}
