// The switch that lets a cell run on ranks, and which of them.
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';
import { h, setAttribute } from '../components/dom';
import { readMagic, toggleMagic, withRanks } from '../model/magic';
import { parseRanks } from '../model/logs';
import type { NotebookCell, NotebookPanel } from './panels';

/** Return the active cell of a notebook where it holds code. */
export function activeCode(panel: NotebookPanel | null): NotebookCell | null {
  const cell = panel?.content.activeCell ?? null;
  return cell !== null && cell.model.type === 'code' ? cell : null;
}

export function isDistributed(cell: NotebookCell | null): boolean {
  return cell !== null && readMagic(cell.model.sharedModel.getSource()) !== null;
}

/** Make a cell run on ranks, or in the kernel again. */
export function toggle(cell: NotebookCell): void {
  const { sharedModel } = cell.model;
  sharedModel.setSource(toggleMagic(sharedModel.getSource(), ''));
}

/** The toolbar's field for the ranks of the active cell: there while that cell runs on ranks. */
export class RanksField extends Widget {
  private readonly input: HTMLInputElement;

  constructor(
    private readonly panel: NotebookPanel,
    trans: TranslationBundle,
  ) {
    super();
    this.addClass('ddl-ranks-field');
    this.input = h('input', {
      type: 'text',
      placeholder: trans.__('all ranks'),
      'aria-label': trans.__('Ranks that the cell runs on'),
      title: trans.__('Ranks that the cell runs on, e.g. 0,2-3'),
      size: '9',
      spellcheck: 'false',
    });
    this.node.append(this.input);
    this.node.setAttribute('data-lm-suppress-shortcuts', 'true');
    this.input.addEventListener('change', () => this.apply());
    this.input.addEventListener('input', () => this.check());
    this.input.addEventListener('keydown', (event) => {
      event.stopPropagation();
      if (event.key === 'Enter') {
        this.apply();
      }
    });
    panel.content.activeCellChanged.connect(this.show_, this);
    panel.content.modelContentChanged.connect(this.show_, this);
    this.show_();
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.panel.content.activeCellChanged.disconnect(this.show_, this);
      this.panel.content.modelContentChanged.disconnect(this.show_, this);
      super.dispose();
    }
  }

  private show_(): void {
    const cell = activeCode(this.panel);
    const magic = cell === null ? null : readMagic(cell.model.sharedModel.getSource());
    this.node.classList.toggle('ddl-is-off', magic === null);
    if (document.activeElement !== this.input) {
      this.input.value = magic?.ranks ?? '';
      this.check();
    }
  }

  private check(): boolean {
    const isValid = parseRanks(this.input.value) !== undefined;
    setAttribute(this.input, 'aria-invalid', String(!isValid));
    return isValid;
  }

  private apply(): void {
    const cell = activeCode(this.panel);
    if (cell === null || !this.check()) {
      return;
    }
    const { sharedModel } = cell.model;
    const source = sharedModel.getSource();
    const changed = withRanks(source, this.input.value.replace(/\s+/g, ''));
    if (changed !== source) {
      sharedModel.setSource(changed);
    }
  }
}
