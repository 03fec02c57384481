// The bar of the log page: whose log, what is sought in it or left of it, and where one is.
import type { TranslationBundle } from '@jupyterlab/translation';
import { downloadIcon, filterListIcon } from '@jupyterlab/ui-components';
import { h, setAttribute, setText } from '../components/dom';
import { size } from '../components/format';
import type { Direction, LogPattern, LogTarget } from '../model/log_model';
import type { LogSize } from '../model/server';

const ALL = 'all';
const STEPS = 1000;

/** What the bar asks for. */
export interface LogActions {
  readonly choose: (rank: number | null) => void;
  /** The list of ranks is about to be opened. */
  readonly readSizes: () => void;
  /** What is shown has changed: the stream, or what is left out. */
  readonly open: () => void;
  readonly follow: () => void;
  readonly seek: (share: number) => void;
  readonly search: (target: LogTarget, direction: Direction) => void;
  /** What is sought has changed. */
  readonly changePattern: () => void;
}

export class LogBar {
  readonly element: HTMLElement;
  /** What stands beside the page's heading. */
  readonly heading: readonly HTMLElement[];
  readonly follow = h('input', { type: 'checkbox' });
  private readonly ranks: HTMLSelectElement;
  private readonly stderr: HTMLButtonElement;
  private readonly only: HTMLButtonElement;
  private readonly field: HTMLInputElement;
  private readonly exact: HTMLButtonElement;
  private readonly expression: HTMLButtonElement;
  private readonly searches: readonly HTMLButtonElement[];
  private readonly place: HTMLInputElement;
  private readonly file: HTMLAnchorElement;
  private readonly status = h('span', { class: 'ddl-count', role: 'status' });
  private readonly fault = h('span', { class: 'ddl-fault', role: 'alert' });

  constructor(
    private readonly trans: TranslationBundle,
    private readonly actions: LogActions,
  ) {
    this.ranks = h('select', { 'aria-label': trans.__('Rank') });
    this.field = h('input', { type: 'text', placeholder: trans.__('text'), 'aria-label': trans.__('Find a text'), spellcheck: 'false' });
    const { open, changePattern } = actions;
    const change = (): void => {
      changePattern();
      if (isPressed(this.only)) {
        open();
      }
    };
    this.exact = this.toggle('Aa', trans.__('Match case'), change);
    this.expression = this.toggle('.*', trans.__('Regular expression'), change);
    this.only = this.toggle('', trans.__('only matching lines'), open);
    filterListIcon.element({ container: this.only, height: '14px', width: '14px' });
    this.stderr = this.toggle('stderr', trans.__('stderr only'), open);
    this.place = h('input', { type: 'range', min: '0', max: String(STEPS), 'aria-label': trans.__('Place in the log') });
    const download = trans.__('Download');
    this.file = h('a', { class: 'ddl-icon-button', download: '', title: download, 'aria-label': download });
    downloadIcon.element({ container: this.file, height: '16px', width: '16px', display: 'block' });
    const search = (text: string, name: string, direction: Direction, target: () => LogTarget | null): HTMLButtonElement =>
      this.button(text, name, () => {
        const sought = target();
        if (sought !== null) {
          actions.search(sought, direction);
        }
      });
    const pattern = (): LogTarget | null => (this.pattern.text === '' ? null : this.pattern);
    this.searches = [
      search('↑', trans.__('Find previous (Shift F3)'), 'previous', pattern),
      search('↓', trans.__('Find next (F3)'), 'next', pattern),
      search('✕↑', trans.__('Previous error'), 'previous', () => 'error'),
      search('✕↓', trans.__('Next error'), 'next', () => 'error'),
    ];
    const [previous, next, ...errors] = this.searches;
    this.element = h(
      'div',
      { class: 'ddl-log-bar', role: 'toolbar', 'aria-label': trans.__('Log') },
      this.ranks,
      h('span', { class: 'ddl-log-find' }, this.field, this.exact, this.expression, this.only, previous!, next!),
      h('span', { class: 'ddl-log-find' }, ...errors),
      this.stderr,
      this.fault,
    );
    this.heading = [this.place, this.status, h('label', {}, this.follow, trans.__('follow')), this.file];
    this.follow.checked = true;
    this.listen();
  }

  get isStderr(): boolean {
    return isPressed(this.stderr);
  }

  /** What is in the field. */
  get pattern(): LogPattern {
    return { text: this.field.value, isExpression: isPressed(this.expression), isExact: isPressed(this.exact) };
  }

  /** What is left; all where it has no text. */
  get filter(): LogPattern {
    return isPressed(this.only) ? this.pattern : { ...this.pattern, text: '' };
  }

  /** Leave nothing out. */
  showAll(): void {
    setAttribute(this.only, 'aria-pressed', 'false');
  }

  focusField(): void {
    this.field.focus();
    this.field.select();
  }

  showRanks(sizes: readonly LogSize[], rank: number | null): void {
    const { trans, ranks } = this;
    const whole = sizes.reduce((sum, { bytes }) => sum + bytes, 0);
    const texts = new Map([[ALL, trans.__('all ranks (%1)', size(whole))]]);
    for (const log of sizes) {
      texts.set(String(log.rank), trans.__('rank %1 (%2)', log.rank, size(log.bytes)));
    }
    const shown = [...ranks.options];
    if (shown.length === texts.size && shown.every(({ value }) => texts.has(value))) {
      // In place: the list may be open.
      shown.forEach((option) => setText(option, texts.get(option.value)!));
    } else {
      ranks.replaceChildren(...[...texts].map(([value, text]) => h('option', { value }, text)));
    }
    ranks.value = rank === null ? ALL : String(rank);
  }

  showFile(url: string): void {
    setAttribute(this.file, 'href', url);
  }

  showPlace(share: number, text: string): void {
    this.place.value = String(Math.round(share * STEPS));
    setText(this.status, text);
  }

  showLooked(share: number): void {
    setText(this.status, this.trans.__('looked at %1%', Math.round(share * 100)));
  }

  /** Say what went wrong; in the field too where it is an expression. */
  showFault(text: string): void {
    setText(this.fault, text);
    setAttribute(this.field, 'aria-invalid', String(text !== '' && isPressed(this.expression)));
  }

  /** Say what is no fault: that nothing was found. */
  showNote(text: string): void {
    setText(this.fault, text);
  }

  setSearching(isSearching: boolean): void {
    for (const button of this.searches) {
      button.disabled = isSearching;
    }
  }

  private listen(): void {
    const { actions, ranks, field } = this;
    ranks.addEventListener('change', () => actions.choose(ranks.value === ALL ? null : Number(ranks.value)));
    // The logs grow, and ranks that wrote nothing have none yet: as they are when one chooses.
    for (const name of ['pointerdown', 'focus']) {
      ranks.addEventListener(name, () => actions.readSizes());
    }
    this.follow.addEventListener('change', () => void (this.follow.checked && actions.follow()));
    this.place.addEventListener('input', () => actions.seek(Number(this.place.value) / STEPS));
    field.addEventListener('input', () => actions.changePattern());
    field.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') {
        this.enter(event.shiftKey ? 'previous' : 'next');
      }
    });
  }

  /** Enter filters where lines are left out, and looks for the next one where they are not. */
  private enter(direction: Direction): void {
    if (isPressed(this.only)) {
      this.actions.open();
    } else if (this.pattern.text !== '') {
      this.actions.search(this.pattern, direction);
    }
  }

  private toggle(text: string, name: string, changed: () => void): HTMLButtonElement {
    const button = this.button(text, name, () => {
      setAttribute(button, 'aria-pressed', String(!isPressed(button)));
      changed();
    });
    button.setAttribute('aria-pressed', 'false');
    return button;
  }

  private button(text: string, name: string, act: () => void): HTMLButtonElement {
    const button = h('button', { class: 'ddl-button', title: name, 'aria-label': name }, text);
    button.addEventListener('click', act);
    return button;
  }
}

function isPressed(button: HTMLElement): boolean {
  return button.getAttribute('aria-pressed') === 'true';
}
