// How many runs the search field means, and what there is to choose runs by. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import { FIELDS, type FieldValues, filterOf } from './run_filter';
import { isRecord, numberOrNull } from './parse';
import type { RunsModel } from './runs_model';
import type { Server } from './server';

export interface RunValues {
  /** How many runs there are. */
  readonly total: number;
  /** How many of them, the newest, were looked at. */
  readonly read: number;
  /** How many of those are meant. */
  readonly chosen: number;
  readonly values: FieldValues;
}

export class RunValuesModel {
  private found: RunValues | null = null;
  private foundFor = '';
  private seen = -1;
  private readonly _changed = new Signal<this, void>(this);

  constructor(
    private readonly server: Pick<Server, 'runValues'>,
    private readonly runs: RunsModel,
  ) {
    runs.changed.connect(() => this.follow());
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** What there is to choose by, as it was when it was asked for last; null before the first answer. */
  get values(): FieldValues | null {
    return this.found?.values ?? null;
  }

  /** How many runs what is searched for means; null while that is not known, or nothing is searched for. */
  get counts(): Omit<RunValues, 'values'> | null {
    const { search } = this.runs;
    return search === '' || search !== this.foundFor ? null : this.found;
  }

  /** Ask what there is, as for a menu of it; null where the server does not say. */
  async read(): Promise<RunValues | null> {
    const { search } = this.runs;
    try {
      const found = await this.server.runValues(search);
      if (search === this.runs.search) {
        this.found = found;
        this.foundFor = search;
        this._changed.emit();
      }
      return found;
    } catch {
      // The list itself, read from the same server, says what is wrong.
      return null;
    }
  }

  private follow(): void {
    const { search, reads, status } = this.runs;
    if (status !== 'read' || reads === this.seen) {
      return;
    }
    this.seen = reads;
    const { values, text } = filterOf(search);
    // What was counted before is of something else.
    this._changed.emit();
    if (values.length > 0 || text !== '') {
      void this.read();
    }
  }
}

export function runValuesOf(value: unknown): RunValues {
  const found = isRecord(value) ? value : {};
  const values = isRecord(found['values']) ? found['values'] : {};
  const known = FIELDS.map((field) => [field, pairsOf(values[field])]);
  return {
    total: numberOrNull(found['total']) ?? 0,
    read: numberOrNull(found['read']) ?? 0,
    chosen: numberOrNull(found['chosen']) ?? 0,
    values: Object.fromEntries(known) as FieldValues,
  };
}

function pairsOf(value: unknown): [string, number][] {
  const pairs = Array.isArray(value) ? (value as unknown[]) : [];
  return pairs.filter((pair): pair is [string, number] => Array.isArray(pair) && typeof pair[0] === 'string' && typeof pair[1] === 'number');
}
