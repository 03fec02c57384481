// Where there is nothing to show yet: one sentence, and the button that opens a notebook which has something.
import { h, setHidden, setText } from '../components/dom';
import { CommandIDs } from '../tokens';
import type { Context } from './context';

export class ExampleOffer {
  readonly element: HTMLElement;
  private readonly text = h('p', { class: 'ddl-hint' });

  constructor(context: Context) {
    const button = h('button', { type: 'button', class: 'ddl-button' }, context.trans.__('Open an example notebook'));
    button.addEventListener('click', () => context.act(CommandIDs.openExample));
    this.element = h('div', { class: 'ddl-example-offer' }, this.text, button);
    this.show('');
  }

  /** @param sentence what will be here; empty where something is. */
  show(sentence: string): void {
    setText(this.text, sentence);
    setHidden(this.element, sentence === '');
  }
}
