// The toolbar's choice beside the switch: which cells of the notebook run on ranks.
import { caretDownEmptyIcon } from '@jupyterlab/ui-components';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';
import { h, setAttribute } from '../components/dom';
import { keepTyping } from '../components/keys';
import type { NotebookMode } from './whole_notebook';

const CELL = 'cell';
const WHOLE = 'notebook';

export class ModeField extends Widget {
  private readonly select: HTMLSelectElement;

  constructor(
    private readonly mode: NotebookMode,
    private readonly trans: TranslationBundle,
  ) {
    super();
    // As JupyterLab's own choice of a cell's type looks.
    this.addClass('ddl-mode-field');
    const option = (value: string, text: string): HTMLElement => h('option', { value }, text);
    this.select = h(
      'select',
      { 'aria-label': trans.__('Which cells run on ranks') },
      option(CELL, trans.__('This cell')),
      option(WHOLE, trans.__('Whole notebook')),
    );
    const box = h('div', { class: 'jp-HTMLSelect jp-DefaultStyle' }, this.select);
    box.append(caretDownEmptyIcon.element({ tag: 'span' }));
    this.node.append(box);
    keepTyping(this.node);
    this.select.addEventListener('change', () => mode.choose(this.select.value === WHOLE));
    mode.changed.connect(this.show_, this);
    this.show_();
  }

  override dispose(): void {
    this.mode.changed.disconnect(this.show_, this);
    super.dispose();
  }

  private show_(): void {
    const { trans, mode } = this;
    this.select.value = mode.isWhole ? WHOLE : CELL;
    const whole = trans.__('Each cell without a magic runs on the ranks; %1 keeps one here. Saved in the notebook.', '%%local');
    const cell = trans.__('Cells that begin with %1 run on the ranks. The switch is the current cell’s.', '%%distributed');
    setAttribute(this.select, 'title', mode.isWhole ? whole : cell);
    this.node.classList.toggle('ddl-is-whole', mode.isWhole);
  }
}
