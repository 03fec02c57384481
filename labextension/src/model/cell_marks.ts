// What came of each cell of each notebook, newest last. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import type { HubModel } from './hub';
import type { Notice } from './notice';

// More marks on cells are not needed; the runs themselves are listed from disk.
const MAX_MARKS = 2000;

/** The notice of a cell's newest run, and the notebook that the cell is in: a copy of it has the same cells' ids. */
export interface CellMark {
  /** The notebook's path; where that is not known, its kernel's id. */
  readonly place: string;
  readonly notice: Notice;
}

export class CellMarks {
  private readonly marks = new Map<string, CellMark>();
  private readonly _changed = new Signal<this, void>(this);

  /** @param pathOf returns the path of a kernel's notebook; null where it is not known. */
  constructor(
    hub: HubModel,
    private readonly pathOf: (kernel: string) => string | null,
  ) {
    hub.noticed.connect((_, notice) => this.take({ place: this.pathOf(notice.kernel) ?? notice.kernel, notice }));
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  all(): CellMark[] {
    return [...this.marks.values()];
  }

  /** Return the newest notice of a cell of a notebook. */
  of(path: string, kernel: string | null, cell: string): Notice | null {
    const found = this.marks.get(keyOf(path, cell)) ?? (kernel === null ? undefined : this.marks.get(keyOf(kernel, cell)));
    return found?.notice ?? null;
  }

  /** Restore the mark from before the page was reloaded, unless the cell has run since. */
  remember(mark: CellMark): void {
    const { cell_id: cell } = mark.notice;
    if (cell !== null && !this.marks.has(keyOf(mark.place, cell))) {
      this.take(mark);
    }
  }

  /** Set the outcome of a run without an end event; null where it was deleted, and so has no mark. */
  settle(run: string, end: Pick<Notice, 'state' | 'seconds'> | null): void {
    for (const [key, { place, notice }] of [...this.marks]) {
      if (notice.run === run && end === null) {
        this.marks.delete(key);
      } else if (notice.run === run && end !== null) {
        const { state, seconds } = end;
        this.marks.set(key, { place, notice: { ...notice, state, seconds } });
      }
    }
    this._changed.emit();
  }

  /** Follow a notebook that was renamed. */
  move(from: string, to: string): void {
    for (const { place, notice } of this.all()) {
      if (place === from && notice.cell_id !== null) {
        this.marks.delete(keyOf(from, notice.cell_id));
        this.marks.set(keyOf(to, notice.cell_id), { place: to, notice });
      }
    }
    this._changed.emit();
  }

  private take(mark: CellMark): void {
    const { cell_id: cell } = mark.notice;
    if (cell === null) {
      return;
    }
    // The oldest go first, and a cell that runs again is new.
    const key = keyOf(mark.place, cell);
    this.marks.delete(key);
    this.marks.set(key, mark);
    const oldest = this.marks.keys().next();
    if (this.marks.size > MAX_MARKS && oldest.done !== true) {
      this.marks.delete(oldest.value);
    }
    this._changed.emit();
  }
}

function keyOf(place: string, cell: string): string {
  return `${place}\n${cell}`;
}
