// A list of rows of one height, of which only those in sight are in the page.

const AROUND = 8;

export class VirtualRows {
  readonly element: HTMLElement;
  private readonly space: HTMLElement;
  private readonly rows: HTMLElement[] = [];
  private count = 0;
  private first = 0;
  private inSight = 0;

  /**
   * @param make makes an empty row.
   * @param fill puts what stands at an index into a row; called for rows in sight only.
   */
  constructor(
    element: HTMLElement,
    space: HTMLElement,
    private readonly rowHeight: number,
    private readonly make: () => HTMLElement,
    private readonly fill: (row: HTMLElement, index: number) => void,
    scrolled: () => void = () => undefined,
  ) {
    this.element = element;
    this.space = space;
    element.addEventListener(
      'scroll',
      () => {
        this.draw();
        scrolled();
      },
      { passive: true },
    );
  }

  get isAtEnd(): boolean {
    const { scrollTop, clientHeight, scrollHeight } = this.element;
    return scrollTop + clientHeight >= scrollHeight - this.rowHeight;
  }

  /** Show so many rows; `followed` keeps the last in sight. */
  update(count: number, followed = false): void {
    if (count !== this.count) {
      this.count = count;
      this.space.style.height = `${count * this.rowHeight}px`;
    }
    if (this.inSight === 0 || followed) {
      this.inSight = Math.ceil(this.element.clientHeight / this.rowHeight);
    }
    if (followed) {
      this.element.scrollTop = count * this.rowHeight;
    }
    this.draw();
  }

  resize(): void {
    this.inSight = Math.ceil(this.element.clientHeight / this.rowHeight);
    this.draw();
  }

  scrollTo(index: number): void {
    this.element.scrollTop = Math.max(0, (index - 2) * this.rowHeight);
    this.draw();
  }

  private draw(): void {
    const top = Math.floor(this.element.scrollTop / this.rowHeight) - AROUND;
    const needed = Math.min(this.count, this.inSight + 2 * AROUND);
    this.first = Math.max(0, Math.min(top, this.count - needed));
    while (this.rows.length < needed) {
      const row = this.make();
      this.rows.push(row);
      this.space.append(row);
    }
    for (const [at, row] of this.rows.entries()) {
      const isUsed = at < needed;
      row.hidden = !isUsed;
      if (isUsed) {
        const index = this.first + at;
        row.style.transform = `translateY(${index * this.rowHeight}px)`;
        this.fill(row, index);
      }
    }
  }
}
