// The search field of runs: a text and what runs are filtered by, with what there is, and how many runs are meant.
import type { TranslationBundle } from '@jupyterlab/translation';
import { closeIcon, filterListIcon } from '@jupyterlab/ui-components';
import { UUID } from '@lumino/coreutils';
import { h, setHidden, setText } from '../components/dom';
import { completions, FIELDS, type FilterField, hasValue, toggled } from '../model/run_filter';
import type { RunValues, RunValuesModel } from '../model/run_values';
import type { RunsModel } from '../model/runs_model';
import { iconButton } from './icon_button';
import { showMenu } from './popup_menu';

const TYPING_MS = 200;

export class RunSearch {
  readonly element: HTMLElement;
  /** How many runs are meant, of how many. */
  readonly count = h('span', { class: 'ddl-run-count', role: 'status' });
  private readonly input: HTMLInputElement;
  private readonly options: HTMLElement;
  private readonly clear: HTMLButtonElement;
  private readonly fields: Readonly<Record<FilterField, string>>;

  /** @param keep keeps what is written for when the page is loaded again. */
  constructor(
    private readonly trans: TranslationBundle,
    private readonly model: RunsModel,
    private readonly values: RunValuesModel,
    private readonly keep: (search: string) => void,
  ) {
    const list = `ddl-${UUID.uuid4()}`;
    this.options = h('datalist', { id: list });
    const name = trans.__('Search runs');
    const title = trans.__('search, or state: tag: notebook:');
    this.input = h('input', { type: 'text', placeholder: name, title, 'aria-label': name, spellcheck: 'false', autocomplete: 'off', list });
    this.clear = iconButton(closeIcon, trans.__('Clear the search'));
    const filter = iconButton(filterListIcon, trans.__('Filter runs'));
    filter.setAttribute('aria-haspopup', 'menu');
    this.element = h('div', { class: 'ddl-run-search' }, this.input, this.options, this.clear, filter);
    this.fields = {
      ...{ state: trans.__('State'), notebook: trans.__('Notebook'), tag: trans.__('Tag'), name: trans.__('Name'), model: trans.__('Model') },
    };
    this.input.addEventListener('input', () => this.written());
    this.input.addEventListener('focus', () => void values.read());
    this.clear.addEventListener('click', () => {
      this.write('');
      this.input.focus();
    });
    filter.addEventListener('click', () => void this.showMenu(filter));
    values.changed.connect(() => this.draw());
    this.draw();
  }

  /** Write what was written when the page was there before, unless something is written already. */
  restore(search: string): void {
    if (this.input.value === '' && search !== '') {
      this.write(search);
    }
  }

  private write(search: string): void {
    this.input.value = search;
    this.written(0);
  }

  private written(ms = TYPING_MS): void {
    const { value } = this.input;
    this.model.searchFor(value, ms);
    this.keep(value);
    this.draw();
  }

  private draw(): void {
    const { value } = this.input;
    const { counts, values } = this.values;
    setHidden(this.clear, value === '');
    setText(this.count, counts === null ? '' : this.countText(counts));
    const texts = completions(value, values);
    this.options.replaceChildren(...texts.map((text) => h('option', { value: text })));
  }

  private countText({ chosen, read, total }: Omit<RunValues, 'values'>): string {
    const { trans } = this;
    return read < total ? trans.__('%1 of the newest %2', chosen, read) : trans.__('%1 of %2', chosen, total);
  }

  private async showMenu(button: HTMLElement): Promise<void> {
    const { trans, fields } = this;
    const known = await this.values.read();
    const written = this.input.value;
    const entries = FIELDS.map((field) => ({
      label: fields[field],
      entries: (known?.values[field] ?? []).map(([word, runs]) => ({
        label: `${field === 'state' ? trans.__(word) : word} (${runs})`,
        isToggled: hasValue(written, field, word),
        act: () => this.write(toggled(written, field, word)),
      })),
    }));
    const { left, bottom } = button.getBoundingClientRect();
    const shown = entries.filter((one) => one.entries.length > 0);
    showMenu(shown.length > 0 ? shown : [{ label: trans.__('No run'), act: () => undefined, isEnabled: false }], left, bottom, button);
  }
}
