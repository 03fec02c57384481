// A list of rows of one height, of which only those in sight are in the page.

const AROUND = 8;

export class VirtualRows {
  private readonly rows: HTMLElement[] = [];
  private count = 0;
  private inSight = 0;
  // Kept here, because to ask the page for it is to have it laid out anew.
  private top = 0;

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
          this.draw();
          scrolled(scrollTop >= this.lastTop - rowHeight);
        }
      },
      { passive: true },
    );
  }

  private get lastTop(): number {
    return Math.max(0, this.count * this.rowHeight - this.inSight);
  }

  /** Show so many rows; `followed` keeps the last in sight. */
  update(count: number, followed = false): void {
    if (this.inSight === 0) {
      this.inSight = this.element.clientHeight;
    }
    if (count !== this.count) {
      this.count = count;
      this.space.style.height = `${count * this.rowHeight}px`;
    }
    if (followed) {
      this.top = this.lastTop;
    }
    this.draw();
    if (followed) {
      this.element.scrollTop = this.top;
    }
  }

  resize(): void {
    this.inSight = this.element.clientHeight;
    this.draw();
  }

  scrollTo(index: number): void {
    this.top = Math.min(this.lastTop, Math.max(0, (index - 2) * this.rowHeight));
    this.element.scrollTop = this.top;
    this.draw();
  }

  /** Go on with what was in sight, before which so many rows came, or, if negative, went. */
  shift(rows: number): void {
    this.top = Math.min(this.lastTop, Math.max(0, this.element.scrollTop + rows * this.rowHeight));
    this.element.scrollTop = this.top;
    this.draw();
  }

  private draw(): void {
    const needed = Math.min(this.count, Math.ceil(this.inSight / this.rowHeight) + 2 * AROUND);
    const first = Math.max(0, Math.min(Math.floor(this.top / this.rowHeight) - AROUND, this.count - needed));
    while (this.rows.length < needed) {
      const row = this.make();
      this.rows.push(row);
      this.space.append(row);
    }
    // An index has its row, as long as it is in sight: what stands still is not touched.
    const size = this.rows.length;
    for (let index = first; index < first + size; index++) {
      const row = this.rows[index % size]!;
      const isUsed = index < first + needed;
      if (row.hidden === isUsed) {
        row.hidden = !isUsed;
      }
      if (isUsed) {
        const top = `${index * this.rowHeight}px`;
        if (row.style.top !== top) {
          row.style.top = top;
        }
        this.fill(row, index);
      }
    }
  }
}
