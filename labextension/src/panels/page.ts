// What pages of the main area have in common: their looks, in the theme that is chosen.
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { h } from '../components/dom';
import { followTheme } from '../components/theme';
import styles from '../pages.css';

document.head.append(h('style', {}, styles));

export class Page extends Widget {
  private readonly unfollow: () => void;

  constructor() {
    super();
    this.addClass('ddl-panel');
    this.addClass('ddl-page');
    this.unfollow = followTheme(this.node, () => this.themed());
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.unfollow();
      super.dispose();
    }
  }

  /** Another theme was chosen. */
  protected themed(): void {
    // What the style sheet does not do by itself, a page does here.
  }
}

/** A page that gets events only while it is visible. */
export abstract class LivePage extends Page {
  /** Have events come, and draw them. */
  protected abstract watch(): void;

  /** Have none come any more. */
  protected abstract rest(): void;

  override dispose(): void {
    if (!this.isDisposed) {
      this.rest();
      super.dispose();
    }
  }

  protected override onAfterAttach(_: Message): void {
    if (this.isVisible) {
      this.watch();
    }
  }

  protected override onAfterShow(): void {
    this.watch();
  }

  protected override onBeforeHide(): void {
    this.rest();
  }

  protected override onBeforeDetach(): void {
    this.rest();
  }
}
