// On the card of ranks that no cell uses: when they are ended, and in the last minutes the button that keeps them.
import type { TranslationBundle } from '@jupyterlab/translation';
import { h, setHidden, setText } from '../components/dom';
import { idleEnd } from '../model/idle_end';

const COUNT_MS = 1000;

export class IdleNotice {
  // No live region: it changes every second.
  private readonly text = h('p', { class: 'ddl-note', role: 'timer' });
  private readonly button: HTMLButtonElement;
  readonly element: HTMLElement;
  private timer = 0;

  /** @param keep restarts the count. */
  constructor(
    private readonly trans: TranslationBundle,
    keep: () => void,
  ) {
    this.button = h('button', { class: 'ddl-button' }, trans.__('Keep them'));
    this.button.addEventListener('click', keep);
    this.element = h('div', { class: 'ddl-cluster-line' }, this.text, this.button);
  }

  /**
   * @param endsAtS when the ranks are ended as idle; null while they are used, and for never
   * @param keeps their variables are saved before
   */
  update(endsAtS: number | null, keeps: boolean): void {
    window.clearTimeout(this.timer);
    const end = idleEnd(endsAtS, Date.now() / 1000);
    const isSoon = end?.isSoon === true;
    setHidden(this.element, end === null);
    setHidden(this.button, !isSoon);
    const kept = keeps ? ` · ${this.trans.__('variables are kept')}` : '';
    setText(this.text, end === null ? '' : this.trans.__('Idle: ended in %1', end.text) + kept);
    this.text.classList.toggle('ddl-time-soon', isSoon);
    if (isSoon && this.element.isConnected) {
      this.timer = window.setTimeout(() => this.update(endsAtS, keeps), COUNT_MS);
    }
  }
}
