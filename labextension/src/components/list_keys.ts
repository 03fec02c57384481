// A list that is one stop of the Tab key: arrows move in it, Space ticks and Enter opens.
import { setAttribute } from './dom';

export interface KeyedList {
  /** What is in the list, in its order. */
  readonly ids: () => readonly string[];
  /** Have one in sight. */
  readonly reveal: (id: string) => void;
  /** What a row shows. */
  readonly idOf: (row: HTMLElement) => string | null;
  /** The last one was moved to. */
  readonly reachedEnd: () => void;
}

export class ListKeys {
  /** What the keyboard is on; null for the first. */
  private active: string | null = null;

  /** @param body has the rows, each with a box to tick and a button to open it, neither of them a stop of the Tab key. */
  constructor(
    private readonly body: HTMLElement,
    private readonly rowHeight: number,
    private readonly list: KeyedList,
  ) {
    body.addEventListener('keydown', (event) => this.onKey(event));
    // Firefox presses a button when Space comes up.
    body.addEventListener('keyup', (event) => void (event.key === ' ' && event.preventDefault()));
    body.addEventListener('focusin', (event) => this.onFocus(event));
    body.addEventListener('focusout', () => setAttribute(body, 'tabindex', '0'));
  }

  private onFocus({ target }: FocusEvent): void {
    // Or Shift Tab would lead from a row to the list, and that to the row.
    setAttribute(this.body, 'tabindex', '-1');
    if (target === this.body) {
      this.focus();
      return;
    }
    const row = target instanceof Element ? target.closest<HTMLElement>('.ddl-run-row') : null;
    this.active = (row === null ? null : this.list.idOf(row)) ?? this.active;
  }

  private onKey(event: KeyboardEvent): void {
    const ids = this.list.ids();
    const page = Math.max(1, Math.floor(this.body.clientHeight / this.rowHeight) - 1);
    const moves: Readonly<Record<string, number>> = {
      ...{ ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -ids.length, End: ids.length },
    };
    const move = event.ctrlKey || event.metaKey || event.altKey ? undefined : moves[event.key];
    if (move !== undefined && ids.length > 0) {
      event.preventDefault();
      const at = Math.min(ids.length - 1, Math.max(0, this.index + move));
      this.active = ids[at]!;
      this.focus();
      if (at === ids.length - 1) {
        this.list.reachedEnd();
      }
    } else if (event.key === ' ') {
      event.preventDefault();
      this.rowOf(this.active)?.querySelector('input')?.click();
    }
  }

  private get index(): number {
    return this.active === null ? 0 : Math.max(0, this.list.ids().indexOf(this.active));
  }

  private focus(): void {
    this.active = this.list.ids()[this.index] ?? null;
    if (this.active !== null) {
      this.list.reveal(this.active);
    }
    this.rowOf(this.active)?.querySelector('button')?.focus({ preventScroll: true });
  }

  private rowOf(id: string | null): HTMLElement | null {
    const rows = [...this.body.querySelectorAll<HTMLElement>('.ddl-run-row')];
    return rows.find((row) => !row.hidden && id !== null && this.list.idOf(row) === id) ?? null;
  }
}
