// A stall while it lasts: which ranks wait for which, and where each of them is. Text, and never HTML.
import type { Stall } from '../model/stall';
import type { Words } from '../model/words';
import { h, setHidden, setText } from './dom';

export class StallBox {
  readonly element: HTMLElement;
  // A screen reader reads an alert at once; the stacks are read on demand.
  private readonly what = h('p', { class: 'ddl-stall-what', role: 'alert' });
  private readonly where: HTMLElement;

  constructor(trans: Words) {
    this.where = h('pre', { class: 'ddl-stall-where', role: 'region', 'aria-label': trans.__('Where the ranks are'), tabindex: '0' });
    this.element = h('div', { class: 'ddl-stall', hidden: '' }, this.what, this.where);
  }

  update(stall: Stall): void {
    const { what, where } = stall.parts;
    setHidden(this.element, what === '');
    setText(this.what, what);
    setText(this.where, where);
    setHidden(this.where, where === '');
  }
}
