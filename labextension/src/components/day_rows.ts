// A list of rows of different heights, of which only those in sight are in the page.

// The browser scrolls before we are asked: so much beyond what is in sight is kept ready.
const AROUND_PX = 300;
const NEAR_END_PX = 42;

export interface RowKind<T> {
  readonly height: number;
  readonly make: () => HTMLElement;
  readonly fill: (element: HTMLElement, row: T) => void;
}

export class DayRows<T extends { readonly id: string; readonly kind: string }> {
  private rows: readonly T[] = [];
  /** Where each row begins, and where the last one ends. */
  private tops: number[] = [0];
  /** What is in the page, by the row's id; what is not used waits by its kind. */
  private shown = new Map<string, HTMLElement>();
  private readonly spare = new Map<string, HTMLElement[]>();
  private inSight = 0;
  // Kept here, because reading it from the page forces a layout.
  private top = 0;

  /**
   * @param element what scrolls.
   * @param space in it, as high as all rows.
   * @param scrolled called when the user has scrolled.
   */
  constructor(
    private readonly element: HTMLElement,
    private readonly space: HTMLElement,
    private readonly kinds: Readonly<Record<T['kind'], RowKind<T>>>,
    scrolled: () => void,
  ) {
    element.addEventListener(
      'scroll',
      () => {
        if (Math.abs(element.scrollTop - this.top) >= 1) {
          this.top = element.scrollTop;
          this.draw();
          scrolled();
        }
      },
      { passive: true },
    );
  }

  /** Whether the last rows are in sight. */
  get isAtEnd(): boolean {
    return this.inSight > 0 && this.top + this.inSight >= this.height - NEAR_END_PX;
  }

  /** Show these rows; `keepsSight` keeps in sight those that are, whatever came above them. */
  update(rows: readonly T[], keepsSight = false): void {
    const first = this.rows[this.indexAt(this.top)];
    const before = first === undefined ? 0 : this.topOf(first.id);
    this.rows = rows;
    this.tops = [0];
    for (const row of rows) {
      this.tops.push(this.height + this.kinds[row.kind as T['kind']].height);
    }
    const height = `${this.height}px`;
    if (this.space.style.height !== height) {
      this.space.style.height = height;
    }
    this.inSight ||= this.element.clientHeight;
    const after = first === undefined ? -1 : this.topOf(first.id);
    this.move(keepsSight && after >= 0 && this.top > 0 ? this.top + after - before : this.top);
  }

  resize(): void {
    this.inSight = this.element.clientHeight;
    this.draw();
  }

  /** Have a row in sight, moving no further than that takes; a first one with the heading above it. */
  reveal(id: string): void {
    const at = this.rows.findIndex((row) => row.id === id);
    if (at < 0) {
      return;
    }
    const above = this.rows[at - 1];
    const from = this.tops[above !== undefined && above.kind !== this.rows[at]!.kind ? at - 1 : at]!;
    this.move(Math.min(from, Math.max(this.top, this.tops[at + 1]! - this.inSight)));
  }

  private get height(): number {
    return this.tops[this.tops.length - 1]!;
  }

  private topOf(id: string): number {
    const at = this.rows.findIndex((row) => row.id === id);
    return at < 0 ? -1 : this.tops[at]!;
  }

  /** Return the row at a place, by halves. */
  private indexAt(place: number): number {
    let [low, high] = [0, this.rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle + 1]! <= place) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  private move(top: number): void {
    this.top = Math.min(Math.max(0, this.height - this.inSight), Math.max(0, top));
    this.element.scrollTop = this.top;
    this.draw();
  }

  private draw(): void {
    const first = this.indexAt(this.top - AROUND_PX);
    const end = this.inSight === 0 ? first : Math.min(this.rows.length, this.indexAt(this.top + this.inSight + AROUND_PX) + 1);
    const needed = new Map(this.rows.slice(first, end).map((row, at) => [row.id, first + at]));
    const { activeElement } = document;
    let isFocusLost = false;
    for (const [id, element] of [...this.shown]) {
      const isFocused = element.contains(activeElement);
      const at = isFocused ? this.rows.findIndex((row) => row.id === id) : -1;
      if (at >= 0) {
        // What the keyboard is on stays in the page, wherever it is.
        needed.set(id, at);
      } else if (!needed.has(id)) {
        isFocusLost ||= isFocused;
        this.shown.delete(id);
        element.remove();
        this.spareOf(element.dataset['kind'] ?? '').push(element);
      }
    }
    // From the last one on, so that the page has them in their order.
    let below: HTMLElement | null = null;
    for (const at of [...needed.values()].sort((one, other) => other - one)) {
      below = this.place(this.rows[at]!, this.tops[at]!, below);
    }
    if (isFocusLost) {
      this.element.focus({ preventScroll: true });
    }
  }

  private place(row: T, top: number, below: HTMLElement | null): HTMLElement {
    const kind = this.kinds[row.kind as T['kind']];
    let element = this.shown.get(row.id);
    if (element === undefined) {
      element = this.spareOf(row.kind).pop() ?? kind.make();
      element.dataset['kind'] = row.kind;
      this.shown.set(row.id, element);
      this.space.insertBefore(element, below);
    }
    const place = `${top}px`;
    if (element.style.top !== place) {
      element.style.top = place;
    }
    kind.fill(element, row);
    return element;
  }

  private spareOf(kind: string): HTMLElement[] {
    const found = this.spare.get(kind) ?? [];
    this.spare.set(kind, found);
    return found;
  }
}
