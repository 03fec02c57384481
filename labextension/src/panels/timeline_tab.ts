// The tabs of a run's page: the run, and its timeline, whose code is loaded when it is opened first. Arrows move between them.
// Source: WAI-ARIA Authoring Practices, "Tabs with Manual Activation".
import type { TranslationBundle } from '@jupyterlab/translation';
import { h, setAttribute, setHidden } from '../components/dom';
import { keepTyping } from '../components/keys';
import type { Server } from '../model/server';
import type { TimelineView } from './timeline_view';

export class TimelineTab {
  /** The tabs. */
  readonly bar: HTMLElement;
  /** Where the timeline stands. */
  readonly place = h('div', { hidden: '' });
  isShown = false;
  private readonly tabs: readonly HTMLButtonElement[];
  private view: Promise<TimelineView> | null = null;

  /** @param changed called when another tab was chosen. */
  constructor(
    private readonly trans: TranslationBundle,
    private readonly server: Pick<Server, 'timeline' | 'fileUrl'>,
    private readonly run: string,
    private readonly changed: () => void,
  ) {
    const tab = (name: string): HTMLButtonElement => h('button', { class: 'ddl-rank-tab', role: 'tab' }, name);
    this.tabs = [tab(trans.__('Run')), tab(trans.__('Timeline'))];
    this.tabs.forEach((one, at) => one.addEventListener('click', () => this.choose(at === 1)));
    const list = h('div', { role: 'tablist', 'aria-label': trans.__('What is shown of the run') }, ...this.tabs);
    this.bar = h('div', { class: 'ddl-rank-tabs', hidden: '' }, list);
    list.addEventListener('keydown', ({ key }) => {
      if (key === 'ArrowLeft' || key === 'ArrowRight') {
        this.tabs[document.activeElement === this.tabs[0] ? 1 : 0]!.focus();
      }
    });
    keepTyping(list);
    this.draw();
  }

  /** Another theme was chosen. */
  themed(): void {
    void this.view?.then((view) => view.themed());
  }

  dispose(): void {
    void this.view?.then((view) => view.dispose());
  }

  private choose(isShown: boolean): void {
    this.isShown = isShown;
    if (isShown) {
      this.view ??= this.open();
    }
    setHidden(this.place, !isShown);
    this.draw();
    this.changed();
  }

  private draw(): void {
    this.tabs.forEach((one, at) => {
      const isChosen = (at === 1) === this.isShown;
      setAttribute(one, 'aria-selected', String(isChosen));
      setAttribute(one, 'tabindex', isChosen ? '0' : '-1');
    });
  }

  private async open(): Promise<TimelineView> {
    const { TimelineView } = await import('./timeline_view');
    const view = new TimelineView(this.trans, this.server, this.run);
    this.place.append(view.element);
    return view;
  }
}
