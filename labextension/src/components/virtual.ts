// A list of rows of one height, of which only those in sight are in the page.

import { setHidden } from './dom';

// The browser scrolls before we are asked, so while the user scrolls, this many rows beyond those in sight are kept
// ready. For all others none: they would be laid out and painted at each update, too.
const AROUND = 8;
const SCROLLING_MS = 3000;
// A browser scrolls smoothly, frame by frame: after the first frames the last rows are still in sight.
const SMOOTH_SCROLL_MS = 1000;
// A list that is followed may differ from what is drawn by this factor: the bar beside it says what is drawn. A full log loses
// about as many lines as come.
const DRIFT = 1.25;

export class VirtualRows {
  private readonly rows: HTMLElement[] = [];
  private count = 0;
  private inSight = 0;
  // Kept here, because reading it from the page forces a layout.
  private top = 0;
  private scrolledAt = -Infinity;
  // The user's last key, wheel or press.
  private touchedAt = -Infinity;
  private timer = 0;
  // How many rows came, less those that went, while the last ones were followed: each took an earlier one's place, and nothing
  // scrolled.
  private passed = 0;
  private isFollowed = false;

  /**
   * @param element what scrolls.
   * @param space in it, as high as all rows.
   * @param make makes an empty row.
   * @param fill puts what stands at an index into a row; called for rows in sight only.
   * @param scrolled called when the user has scrolled; whether to the end.
   */
  constructor(
    private readonly element: HTMLElement,
    private readonly space: HTMLElement,
    private readonly rowHeight: number,
    private readonly make: () => HTMLElement,
    private readonly fill: (row: HTMLElement, index: number) => void,
    scrolled: (isAtEnd: boolean) => void = () => undefined,
  ) {
    element.addEventListener(
      'scroll',
      () => {
        const { scrollTop } = element;
        if (Math.abs(scrollTop - this.top) >= 1) {
          this.top = scrollTop;
          this.scrolledAt = performance.now();
          this.catchUp();
          this.draw();
          if (!this.isAtEnd) {
            clearTimeout(this.timer);
          }
          scrolled(this.isAtEnd);
        }
      },
      { passive: true },
    );
    // Before the browser scrolls: where it is going is reckoned from where the rows stand then.
    for (const name of ['keydown', 'wheel', 'pointerdown']) {
      element.addEventListener(name, () => this.settle(), { passive: true });
    }
  }

  /** Whether the last rows are in sight. */
  get isAtEnd(): boolean {
    return this.inSight > 0 && this.top >= this.lastTop - this.rowHeight;
  }

  private get lastTop(): number {
    return Math.max(0, (this.count - this.passed) * this.rowHeight - this.inSight);
  }

  /** Show this many rows; `followed` keeps the last in sight, but not against a user who is about to scroll away. */
  update(count: number, followed = false): void {
    clearTimeout(this.timer);
    if (this.inSight === 0) {
      this.inSight = this.element.clientHeight;
    }
    const added = count - this.count;
    const drawn = this.count - this.passed;
    const isFull = Math.min(drawn, count) * this.rowHeight > this.inSight;
    const isNear = count < drawn * DRIFT && drawn < count * DRIFT;
    this.count = count;
    if (followed && this.isFollowed && isFull && isNear) {
      this.passed += added;
      this.draw();
      return;
    }
    this.catchUp();
    if (added !== 0) {
      this.setHeight();
    }
    const untouched = performance.now() - this.touchedAt;
    this.isFollowed = followed && untouched >= SMOOTH_SCROLL_MS;
    if (this.isFollowed) {
      this.top = this.lastTop;
    }
    this.draw();
    if (this.isFollowed) {
      this.element.scrollTop = this.top;
    } else if (followed) {
      this.timer = window.setTimeout(() => this.update(this.count, true), SMOOTH_SCROLL_MS - untouched);
    }
  }

  resize(): void {
    this.inSight = this.element.clientHeight;
    this.isFollowed = false;
    this.draw();
  }

  scrollTo(index: number): void {
    this.catchUp();
    this.top = Math.min(this.lastTop, Math.max(0, (index - 2) * this.rowHeight));
    this.element.scrollTop = this.top;
    this.draw();
  }

  /** Have a row in sight, moving no further than that takes. */
  reveal(index: number): void {
    this.catchUp();
    const from = index * this.rowHeight;
    this.top = Math.min(from, Math.max(this.top, from + this.rowHeight - this.inSight));
    this.element.scrollTop = this.top;
    this.draw();
  }

  /** Keep the same rows in sight after this many were added, or, if negative, removed, before them. */
  shift(rows: number): void {
    this.catchUp();
    this.top = Math.min(this.lastTop, Math.max(0, this.element.scrollTop + rows * this.rowHeight));
    this.element.scrollTop = this.top;
    this.draw();
  }

  /** Put each row where it belongs, with the same ones in sight as before. */
  private catchUp(): void {
    if (this.passed !== 0) {
      this.top = Math.max(0, this.top + this.passed * this.rowHeight);
      this.passed = 0;
      this.setHeight();
      this.element.scrollTop = this.top;
    }
    this.isFollowed = false;
  }

  /** Be ready for who is about to scroll. */
  private settle(): void {
    this.touchedAt = performance.now();
    if (this.passed !== 0) {
      this.catchUp();
      this.draw();
    }
  }

  private setHeight(): void {
    this.space.style.height = `${this.count * this.rowHeight}px`;
  }

  private draw(): void {
    const around = performance.now() - this.scrolledAt < SCROLLING_MS ? AROUND : 0;
    const count = this.count - this.passed;
    // One more than fit: the first and the last may both be cut.
    const needed = Math.min(count, Math.ceil(this.inSight / this.rowHeight) + 1 + 2 * around);
    const first = Math.max(0, Math.min(Math.floor(this.top / this.rowHeight) - around, count - needed));
    while (this.rows.length < needed) {
      const row = this.make();
      this.rows.push(row);
      this.space.append(row);
    }
    // A place has its row, as long as it is in sight: what stands still is not touched.
    const size = this.rows.length;
    for (let place = first; place < first + size; place++) {
      const row = this.rows[place % size]!;
      const isUsed = place < first + needed;
      setHidden(row, !isUsed);
      if (isUsed) {
        const top = `${place * this.rowHeight}px`;
        if (row.style.top !== top) {
          row.style.top = top;
        }
        this.fill(row, place + this.passed);
      }
    }
  }
}
