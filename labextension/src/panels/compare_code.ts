// The code of two of the compared runs, line by line.
import type { TranslationBundle } from '@jupyterlab/translation';
import { diffTable } from '../components/diff_view';
import { h, setHidden } from '../components/dom';
import type { ComparisonModel } from '../model/comparison';
import { diffTexts } from './compare_texts';

export class CompareCode {
  readonly element: HTMLElement;
  private readonly first: HTMLSelectElement;
  private readonly second: HTMLSelectElement;
  private readonly sides = h('input', { type: 'checkbox' });
  private readonly body: HTMLElement;
  /** What is drawn: the codes, and how. */
  private shown = '';

  constructor(
    private readonly trans: TranslationBundle,
    private readonly model: ComparisonModel,
  ) {
    const choice = (label: string, at: number): HTMLSelectElement => {
      const select = h('select', { 'aria-label': label }, ...model.runs.map((run, index) => h('option', { value: String(index) }, run)));
      select.value = String(Math.min(at, model.runs.length - 1));
      select.addEventListener('change', () => this.update());
      return select;
    };
    this.first = choice(trans.__('First'), 0);
    this.second = choice(trans.__('Second'), 1);
    this.sides.addEventListener('change', () => this.update());
    this.body = h('div', { class: 'ddl-table ddl-diff-box', role: 'region', 'aria-label': trans.__('Differences of the code'), tabindex: '0' });
    const bar = h('div', { class: 'ddl-compare-tools' }, this.first, this.second, h('label', {}, this.sides, trans.__('side by side')));
    this.element = h('section', { class: 'ddl-compare-part', 'aria-label': trans.__('Code') }, h('h3', {}, trans.__('Code')), bar, this.body);
  }

  update(): void {
    const { details, names } = this.model;
    for (const select of [this.first, this.second]) {
      for (const [at, option] of [...select.options].entries()) {
        option.text = names[at] ?? option.value;
      }
    }
    const [a, b] = [this.first, this.second].map((select) => details[Number(select.value)]?.cell ?? null);
    setHidden(this.body, a == null || b == null);
    if (a == null || b == null) {
      return;
    }
    const shown = JSON.stringify([a, b, this.sides.checked]);
    if (shown !== this.shown) {
      this.shown = shown;
      this.body.replaceChildren(diffTable(a, b, this.sides.checked, diffTexts(this.trans)));
    }
  }
}
