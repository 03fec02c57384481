// The switch that lets a cell run on ranks, and which of them.
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';
import { h, setAttribute } from '../components/dom';
import { keepTyping } from '../components/keys';
import { type Edit, readMagic, runsOnRanks, toggleMagic, withRanks } from '../model/magic';
import type { HubModel } from '../model/hub';
import { parseRanks } from '../model/logs';
import type { NotebookCell, NotebookPanel } from './panels';
import type { NotebookMode } from './whole_notebook';

/** Return the active cell of a notebook where it holds code. */
export function activeCode(panel: NotebookPanel | null): NotebookCell | null {
  const cell = panel?.content.activeCell ?? null;
  return cell !== null && cell.model.type === 'code' ? cell : null;
}

/** @param isWhole whether the cell's whole notebook runs on ranks. */
export function isDistributed(cell: NotebookCell | null, isWhole: boolean): boolean {
  return cell !== null && runsOnRanks(cell.model.sharedModel.getSource(), isWhole);
}

/** Make a cell run on ranks, or in the kernel again. */
export function toggle(cell: NotebookCell, isWhole: boolean): void {
  edit(cell, toggleMagic(cell.model.sharedModel.getSource(), isWhole));
}

/** Change a part of a cell: setting the whole source would move the cursor to its start. */
function edit(cell: NotebookCell, { start, end, text }: Edit): void {
  cell.model.sharedModel.updateSource(start, end, text);
}

/** The toolbar's field for the ranks of the active cell: there while that cell runs on ranks. */
export class RanksField extends Widget {
  private readonly input: HTMLInputElement;

  constructor(
    private readonly panel: NotebookPanel,
    private readonly trans: TranslationBundle,
    private readonly hub: HubModel,
    private readonly mode: NotebookMode,
  ) {
    super();
    this.addClass('ddl-ranks-field');
    this.input = h('input', {
      type: 'text',
      placeholder: trans.__('all ranks'),
      'aria-label': trans.__('Ranks that the cell runs on'),
      size: '9',
      spellcheck: 'false',
    });
    this.node.append(this.input);
    keepTyping(this.node);
    this.input.addEventListener('change', () => this.apply());
    this.input.addEventListener('input', () => this.check());
    this.input.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') {
        this.apply();
      }
    });
    panel.content.activeCellChanged.connect(this.show_, this);
    panel.content.modelContentChanged.connect(this.show_, this);
    hub.changed.connect(this.show_, this);
    mode.changed.connect(this.show_, this);
    this.show_();
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.panel.content.activeCellChanged.disconnect(this.show_, this);
      this.panel.content.modelContentChanged.disconnect(this.show_, this);
      this.hub.changed.disconnect(this.show_, this);
      this.mode.changed.disconnect(this.show_, this);
      super.dispose();
    }
  }

  private show_(): void {
    const cell = activeCode(this.panel);
    const magic = cell === null ? null : readMagic(cell.model.sharedModel.getSource());
    this.node.classList.toggle('ddl-is-off', !isDistributed(cell, this.mode.isWhole));
    if (document.activeElement !== this.input) {
      this.input.value = magic?.ranks ?? '';
      this.check();
    }
  }

  private check(): boolean {
    const { trans } = this;
    const ranks = parseRanks(this.input.value);
    const size = this.worldSize();
    const isThere = ranks === null || ranks === undefined || size === null || Math.max(...ranks) < size;
    const isValid = ranks !== undefined && isThere;
    setAttribute(this.input, 'aria-invalid', String(!isValid));
    const hint = trans.__('Ranks that the cell runs on, e.g. 0,2-3');
    setAttribute(this.input, 'title', isThere ? hint : trans.__('A rank must be one of 0-%1.', size! - 1));
    return isValid;
  }

  /** How many ranks the notebook has; null where it has none. */
  private worldSize(): number | null {
    const kernel = this.panel.sessionContext.session?.kernel?.id;
    const cluster = kernel === undefined ? null : (this.hub.kernels.get(kernel)?.cluster ?? null);
    return cluster === null || cluster.state === 'stopped' ? null : cluster.world_size;
  }

  private apply(): void {
    const cell = activeCode(this.panel);
    if (cell === null || !this.check()) {
      return;
    }
    const changed = withRanks(cell.model.sharedModel.getSource(), this.input.value.replace(/\s+/g, ''), this.mode.isWhole);
    if (changed !== null) {
      edit(cell, changed);
    }
  }
}
