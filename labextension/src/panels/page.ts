// What pages of the main area have in common: their looks, in the theme that is chosen.
import { Widget } from '@lumino/widgets';
import { followTheme } from '../components/theme';

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
