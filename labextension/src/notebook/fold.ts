// Folds the lines below a run's dashboard that it has in its log too. They stay outputs of the notebook, as they were saved.
import type { TranslationBundle } from '@jupyterlab/translation';
import { h, setHidden, setText } from '../components/dom';
import { number } from '../components/format';
import { keepTyping } from '../components/keys';
import { linesOf } from '../model/run_output';
import type { OutputArea } from './panels';

export class Fold {
  readonly element: HTMLButtonElement;
  private area: OutputArea | null = null;
  private isOpen = false;

  constructor(
    private readonly run: string,
    private readonly trans: TranslationBundle,
  ) {
    this.element = h('button', { class: 'ddl-fold', 'aria-expanded': 'false', hidden: '' }, '');
    this.element.addEventListener('click', () => {
      this.isOpen = !this.isOpen;
      this.draw();
    });
    // Enter would edit the cell.
    keepTyping(this.element);
  }

  /** Fold what is in an area, and what comes there, until `release`. */
  attach(area: OutputArea): void {
    if (this.area === null) {
      this.area = area;
      area.outputLengthChanged.connect(this.draw, this);
      this.draw();
    }
  }

  /** Show all. */
  release(): void {
    const { area } = this;
    this.area = null;
    if (area !== null && !area.isDisposed) {
      area.outputLengthChanged.disconnect(this.draw, this);
      this.folded(area, false);
    }
  }

  private draw(): void {
    if (this.area === null || this.area.isDisposed) {
      return;
    }
    const lines = this.folded(this.area, !this.isOpen);
    const { element, trans } = this;
    setText(element, trans._n('%2 line of output', '%2 lines of output', lines, number(lines)));
    element.setAttribute('aria-expanded', String(this.isOpen));
    setHidden(element, lines === 0);
  }

  /** Hide or show the outputs that have such lines; return how many lines these are. */
  private folded({ model, widgets }: OutputArea, isFolded: boolean): number {
    // Of very many outputs JupyterLab shows the first ones, and then a widget that offers the others.
    const shown = widgets.length < model.length ? widgets.length - 1 : model.length;
    let lines = 0;
    for (let at = 0; at < model.length; at++) {
      const count = linesOf(model.get(at).metadata, this.run);
      lines += count;
      if (count > 0 && at < shown) {
        widgets[at]!.setHidden(isFolded);
      }
    }
    return lines;
  }
}
