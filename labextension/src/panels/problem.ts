// What went wrong, until it is dismissed.
import { h, setHidden, setText } from '../components/dom';

export class Problem {
  readonly element: HTMLElement;
  private readonly text = h('span');

  /** @param dismiss the name of the button that takes it away. */
  constructor(dismiss: string) {
    const button = h('button', { class: 'ddl-dismiss', title: dismiss, 'aria-label': dismiss }, '×');
    button.addEventListener('click', () => this.show(''));
    this.element = h('div', { class: 'ddl-fault-box', role: 'alert' }, this.text, button);
    this.show('');
  }

  /** Show what it is; an empty text takes it away. */
  show(text: string): void {
    setText(this.text, text);
    setHidden(this.element, text === '');
  }
}
