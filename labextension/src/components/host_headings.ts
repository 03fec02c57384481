// Headings of hosts in a list of ranks: a button each, which folds it. The list stays one stop of the Tab key: Up and Down
// lead from heading to heading, Left folds, Right unfolds; Page Up and Down scroll.
import { h, setAttribute, setHidden, setText } from './dom';
import type { VirtualRows } from './virtual';

const HEADING = 'ddl-host-heading';

export interface Heading {
  readonly host: string;
  readonly isFolded: boolean;
  readonly text: string;
  readonly hasFault: boolean;
}

export class HostHeadings {
  readonly folded = new Set<string>();
  private rows: VirtualRows | null = null;

  /**
   * @param body scrolls, and has the rows.
   * @param places returns where headings stand in the list, by host.
   * @param changed is called when a host was folded or unfolded.
   */
  constructor(
    private readonly body: HTMLElement,
    private readonly places: () => ReadonlyMap<string, number>,
    private readonly changed: () => void,
  ) {
    body.addEventListener('click', ({ target }) => {
      const host = hostOf(target);
      if (host !== null) {
        this.fold(host, !this.folded.has(host));
      }
    });
    body.addEventListener('keydown', (event) => this.onKey(event));
  }

  drawnBy(rows: VirtualRows): void {
    this.rows = rows;
  }

  /** Return the button of a heading, which a row has beside what it shows of a rank. */
  static button(): HTMLButtonElement {
    return h('button', { class: HEADING, tabindex: '-1', hidden: '' }, h('span', { class: 'ddl-host-name' }), h('span', { class: 'ddl-host-text' }));
  }

  /** Show a heading in a row, or none; return whether there is one. */
  fill(row: HTMLElement, heading: Heading | null): boolean {
    const button = row.querySelector<HTMLElement>(`.${HEADING}`)!;
    if (heading === null && button === document.activeElement) {
      // Its heading went out of sight.
      this.body.focus({ preventScroll: true });
    }
    row.classList.toggle('ddl-host-row', heading !== null);
    setHidden(button, heading === null);
    if (heading === null) {
      delete button.dataset['host'];
      return false;
    }
    button.dataset['host'] = heading.host;
    setText(button.children[0] as HTMLElement, `${heading.isFolded ? '▸' : '▾'} ${heading.host === '' ? '–' : heading.host}`);
    setText(button.children[1] as HTMLElement, heading.text);
    button.children[1]!.classList.toggle('ddl-host-fault', heading.hasFault);
    setAttribute(button, 'aria-expanded', String(!heading.isFolded));
    setAttribute(button, 'title', `${heading.host}: ${heading.text}`);
    return true;
  }

  private fold(host: string, isFolded: boolean): void {
    if (isFolded) {
      this.folded.add(host);
    } else {
      this.folded.delete(host);
    }
    this.changed();
    this.focus(host);
  }

  private onKey(event: KeyboardEvent): void {
    const hosts = [...this.places().keys()];
    const host = hostOf(document.activeElement);
    if (hosts.length === 0 || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const at = host === null ? -1 : hosts.indexOf(host);
    const moves: Readonly<Record<string, number>> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: hosts.length - 1 };
    const to = moves[event.key];
    if (to !== undefined) {
      this.focus(hosts[Math.min(hosts.length - 1, Math.max(0, to))]!);
    } else if (host !== null && (event.key === 'ArrowLeft' || event.key === 'ArrowRight')) {
      this.fold(host, event.key === 'ArrowLeft');
    } else {
      return;
    }
    event.preventDefault();
  }

  private focus(host: string): void {
    const place = this.places().get(host);
    if (place !== undefined) {
      this.rows?.reveal(place);
      const buttons = [...this.body.querySelectorAll<HTMLElement>(`.${HEADING}`)];
      buttons.find((button) => !button.hidden && button.dataset['host'] === host)?.focus({ preventScroll: true });
    }
  }
}

function hostOf(target: EventTarget | null): string | null {
  const button = target instanceof Element ? target.closest<HTMLElement>(`.${HEADING}`) : null;
  return button?.dataset['host'] ?? null;
}

/** Return where headings stand, by host. */
export function placesOf(entries: readonly object[]): Map<string, number> {
  const places = new Map<string, number>();
  for (const [at, entry] of entries.entries()) {
    if ('isFolded' in entry && 'host' in entry && typeof entry.host === 'string') {
      places.set(entry.host, at);
    }
  }
  return places;
}
