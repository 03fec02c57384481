// After a start from the panel: the line that was used, to be put into the notebook, which then starts its ranks anywhere.
import type { TranslationBundle } from '@jupyterlab/translation';
import { h, setHidden, setText } from '../components/dom';
import { startCell } from '../model/start';
import type { NotebookPanel } from '../notebook/panels';

export class InsertOffer {
  readonly element: HTMLElement;
  private readonly line = h('code', { class: 'ddl-insert-line' });
  /** The last start, and in which notebook. */
  private last: { readonly panel: NotebookPanel; readonly line: string } | null = null;

  constructor(trans: TranslationBundle) {
    const title = trans.__('As the first cell of the notebook, so that it starts its ranks wherever it runs');
    const button = h('button', { class: 'ddl-button', title }, trans.__('Insert as a cell'));
    button.addEventListener('click', () => this.insert());
    this.element = h('div', { class: 'ddl-insert-offer' }, this.line, button);
    this.draw(null);
  }

  /** Offer the line of a start in a notebook; one that attached finds no ranks elsewhere. */
  offer(panel: NotebookPanel, line: string): void {
    this.last = line.startsWith('%ddl attach') ? null : { panel, line };
  }

  /** @param panel the notebook in front; null where it has no ranks. */
  draw(panel: NotebookPanel | null): void {
    const { last } = this;
    const isShown = last !== null && last.panel === panel && !hasLine(panel, last.line);
    setText(this.line, isShown ? last.line : '');
    setHidden(this.element, !isShown);
  }

  private insert(): void {
    if (this.last !== null && !this.last.panel.isDisposed) {
      const { panel, line } = this.last;
      panel.content.model?.sharedModel.insertCell(0, { cell_type: 'code', source: startCell(line) });
      this.draw(panel);
    }
  }
}

function hasLine(panel: NotebookPanel, line: string): boolean {
  return panel.content.widgets.some(({ model }) => model.sharedModel.getSource().split('\n').includes(line));
}
