// Where there is nothing to show or to start yet: the button that opens a notebook which has something.
import { h, setHidden, setText } from '../components/dom';
import { CommandIDs } from '../tokens';
import type { Context } from './context';

export class ExampleOffer {
  readonly element: HTMLElement;
  private readonly text = h('p', { class: 'ddl-hint' });
  private readonly button: HTMLElement;

  constructor(context: Context) {
    this.button = h('button', { class: 'ddl-button' }, context.trans.__('Open an example notebook'));
    this.button.addEventListener('click', () => context.act(CommandIDs.openExample));
    this.element = h('div', { class: 'ddl-example-offer' }, this.text, this.button);
    this.show('', false);
  }

  /**
   * @param sentence what will be here; empty where something is.
   * @param offers whether the button is here.
   */
  show(sentence: string, offers: boolean): void {
    setText(this.text, sentence);
    setHidden(this.text, sentence === '');
    setHidden(this.button, !offers);
    setHidden(this.element, sentence === '' && !offers);
  }
}
