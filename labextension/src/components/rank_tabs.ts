// Whose output is shown: all ranks', or one rank's. Tabs, one stop of the Tab key with arrows between them; of many ranks a list to
// choose from. Source: WAI-ARIA Authoring Practices, "Tabs with Automatic Activation".
import type { Rank } from '../model/rank';
import type { Words } from '../model/words';
import { h, setAttribute, setHidden } from './dom';
import { keepTyping } from './keys';
import { MANY_RANKS } from './turns';

export class RankTabs {
  readonly element: HTMLElement;
  private ranks: readonly number[] = [];
  /** null for all. */
  private chosen: number | null = null;

  /** @param choose called with the rank that was chosen; null for all. */
  constructor(
    private readonly trans: Words,
    private readonly choose: (rank: number | null) => void,
  ) {
    this.element = h('div', { class: 'ddl-rank-tabs', hidden: '' });
    this.element.addEventListener('keydown', (event) => this.onKey(event));
    keepTyping(this.element);
  }

  /** @param ranks of the run. They only become more, so their number says whether they changed. A single one has no tabs: all is its. */
  update(ranks: readonly Pick<Rank, 'rank'>[]): void {
    if (ranks.length === this.ranks.length) {
      return;
    }
    this.ranks = ranks.map(({ rank }) => rank).sort((a, b) => a - b);
    setHidden(this.element, ranks.length < 2);
    this.element.replaceChildren(ranks.length < MANY_RANKS ? this.tabs() : this.list());
    this.draw();
  }

  show(rank: number | null): void {
    if (rank !== this.chosen) {
      this.chosen = rank;
      this.draw();
      this.choose(rank);
    }
  }

  private tabs(): HTMLElement {
    const made = this.choices().map(([rank, name]) => {
      const tab = h('button', { class: 'ddl-rank-tab', role: 'tab', 'data-rank': String(rank ?? '') }, name);
      tab.addEventListener('click', () => this.show(rank));
      return tab;
    });
    return h('div', { role: 'tablist', 'aria-label': this.trans.__('Output of ranks') }, ...made);
  }

  private list(): HTMLElement {
    const options = this.choices().map(([rank, name]) => h('option', { value: String(rank ?? '') }, name));
    const select = h('select', { 'aria-label': this.trans.__('Output of ranks') }, ...options);
    select.addEventListener('change', () => this.show(select.value === '' ? null : Number(select.value)));
    return select;
  }

  private choices(): [number | null, string][] {
    return [[null, this.trans.__('all ranks')], ...this.ranks.map((rank): [number, string] => [rank, this.trans.__('rank %1', rank)])];
  }

  private draw(): void {
    const value = String(this.chosen ?? '');
    const select = this.element.querySelector('select');
    if (select !== null) {
      select.value = value;
    }
    for (const tab of this.element.querySelectorAll<HTMLElement>('[role=tab]')) {
      const isChosen = tab.dataset['rank'] === value;
      setAttribute(tab, 'aria-selected', String(isChosen));
      setAttribute(tab, 'tabindex', isChosen ? '0' : '-1');
    }
  }

  private onKey(event: KeyboardEvent): void {
    const tabs = [...this.element.querySelectorAll<HTMLElement>('[role=tab]')];
    const at = tabs.indexOf(document.activeElement as HTMLElement);
    const moves: Readonly<Record<string, number>> = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: tabs.length - 1 };
    const to = moves[event.key];
    if (at >= 0 && to !== undefined && !event.ctrlKey && !event.altKey && !event.metaKey) {
      event.preventDefault();
      const tab = tabs[(to + tabs.length) % tabs.length]!;
      tab.focus({ preventScroll: true });
      tab.click();
    }
  }
}
