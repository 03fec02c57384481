// A flame graph of a profile: callers above what they call. Arrows move in it, Enter and a click zoom, Escape goes back.
import { ALL, type Box, type Call, flameBoxes, neighbour, type Profile } from '../model/profile';
import { h, setAttribute, setText } from './dom';
import { percent } from './format';

const ROW_HEIGHT = 20;
/** In pixels: what is narrower cannot be seen. */
const LEAST = 2;
const LEAST_WITH_TEXT = 28;
const WIDTH = 1000;

export interface FlameWords {
  readonly label: string;
  readonly all: string;
  readonly hint: string;
  readonly ofTheTime: (share: string) => string;
  readonly itself: (share: string) => string;
  readonly samples: (count: number) => string;
  readonly rank: (rank: number, share: string) => string;
}

export class FlameGraph {
  readonly element: HTMLElement;
  private readonly tree: HTMLElement;
  private readonly where = h('p', { class: 'ddl-flame-where' });
  private readonly figures = h('p');
  private readonly differs = h('p', { class: 'ddl-flame-differs' });
  private readonly ranks = h('p', { class: 'ddl-flame-ranks' });
  private profile: Profile | null = null;
  private boxes: readonly Box[] = [];
  private elements = new Map<number, HTMLElement>();
  private zoomed = ALL;
  private current = ALL;

  constructor(private readonly words: FlameWords) {
    this.tree = h('div', { class: 'ddl-flame', role: 'tree', 'aria-label': words.label });
    const detail = h('div', { class: 'ddl-flame-detail' }, this.where, this.figures, this.differs, this.ranks);
    this.element = h('div', {}, this.tree, detail, h('p', { class: 'ddl-hint' }, words.hint));
    this.tree.addEventListener('keydown', (event) => this.onKey(event));
    this.tree.addEventListener('click', ({ target }) => this.zoom(this.callOf(target)));
    for (const name of ['mouseover', 'focusin']) {
      this.tree.addEventListener(name, ({ target }) => this.tell(this.callOf(target)));
    }
    this.tree.addEventListener('mouseleave', () => this.tell(this.current));
  }

  show(profile: Profile): void {
    this.profile = profile;
    this.zoomed = this.current = ALL;
    this.draw();
    this.tell(ALL);
  }

  /** Have one call fill the width, with the focus on it. */
  zoom(call: number | null): void {
    if (call !== null && this.profile !== null) {
      this.zoomed = this.current = call;
      this.draw();
      this.focus();
    }
  }

  private get width(): number {
    return this.tree.clientWidth || WIDTH;
  }

  private draw(): void {
    const { profile } = this;
    if (profile === null) {
      return;
    }
    this.boxes = flameBoxes(profile, this.zoomed, LEAST / this.width);
    this.elements = new Map(this.boxes.map((box) => [box.call, this.boxOf(box, profile)]));
    this.tree.style.height = `${(1 + Math.max(...this.boxes.map(({ depth }) => depth))) * ROW_HEIGHT}px`;
    this.tree.replaceChildren(...this.elements.values());
  }

  private boxOf({ call, depth, left, width }: Box, profile: Profile): HTMLElement {
    const found = profile.calls[call];
    const title = found === undefined ? this.words.all : titleOf(found);
    const hasText = width * this.width >= LEAST_WITH_TEXT;
    const told = [title, this.words.ofTheTime(percent(found?.share ?? 1)), found?.differs ?? ''].filter((text) => text !== '').join('\n');
    const box = h(
      'div',
      {
        class: `ddl-flame-box ddl-flame-${found?.kind ?? 'all'}${found === undefined || found.differs === '' ? '' : ' ddl-flame-marked'}`,
        style: `left:${left * 100}%;width:${width * 100}%;top:${depth * ROW_HEIGHT}px`,
        role: 'treeitem',
        'aria-level': String(depth + 1),
        'aria-label': told,
        'aria-selected': String(call === this.zoomed),
        'data-call': String(call),
        tabindex: call === this.current ? '0' : '-1',
        title: told,
      },
      !hasText ? '' : (found?.differs ?? '') === '' ? title : `≠ ${title}`,
    );
    return box;
  }

  private onKey(event: KeyboardEvent): void {
    const { profile } = this;
    const from = this.boxes.find(({ call }) => call === this.current);
    if (profile === null || from === undefined || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const to = neighbour(this.boxes, profile, from, event.key);
    if (to !== null) {
      this.current = to.call;
      this.focus();
    } else if (event.key === 'Enter' || event.key === ' ') {
      this.zoom(this.current);
    } else if (event.key === 'Escape' && this.zoomed !== ALL) {
      this.zoom(profile.calls[this.zoomed]!.parent);
    } else if (!event.key.startsWith('Arrow')) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  private focus(): void {
    for (const [call, box] of this.elements) {
      setAttribute(box, 'tabindex', call === this.current ? '0' : '-1');
    }
    this.elements.get(this.current)?.focus();
  }

  private callOf(target: EventTarget | null): number | null {
    const box = target instanceof Element ? target.closest<HTMLElement>('.ddl-flame-box') : null;
    return box === null ? null : Number(box.dataset['call']);
  }

  /** Say all that is known of a call. */
  private tell(call: number | null): void {
    const { profile, words } = this;
    if (call === null || profile === null) {
      return;
    }
    const found = profile.calls[call];
    setText(this.where, found === undefined ? words.all : titleOf(found));
    const figures = [words.ofTheTime(percent(found?.share ?? 1)), found === undefined ? '' : words.itself(percent(found.own))];
    setText(this.figures, [...figures, words.samples(found?.samples ?? profile.ticks)].filter((text) => text !== '').join(' · '));
    setText(this.differs, found === undefined || found.differs === '' ? '' : `≠ ${found.differs}`);
    setText(this.ranks, (found?.ranks ?? []).map(([rank, share]) => words.rank(rank, percent(share))).join(', '));
  }
}

function titleOf({ where, text }: Call): string {
  return text === '' ? where : `${where}: ${text}`;
}
