// Where a cluster's ranks are now, side by side.
import { h, setText } from '../components/dom';
import { placeCards } from '../components/stack_places';
import type { Place } from '../model/stacks';
import type { StacksModel } from '../model/stacks_model';
import type { Context } from './context';
import { Page } from './page';
import { ProfileView } from './profile_view';

export class StacksPage extends Page {
  private readonly body = h('div');
  private readonly status = h('p', { class: 'ddl-hint', role: 'status' });
  private readonly heading = h('h2');
  private readonly button: HTMLButtonElement;
  private readonly profile: ProfileView;
  private shown: readonly Place[] | null = null;

  constructor(
    private readonly context: Context,
    private readonly model: StacksModel,
  ) {
    super();
    const { trans } = context;
    this.button = h('button', { class: 'ddl-button' }, trans.__('Look again'));
    this.button.addEventListener('click', () => void this.look());
    this.profile = new ProfileView(trans, model.profile);
    const bar = h('div', { class: 'ddl-page-bar' }, this.heading, this.button, this.profile.button);
    this.node.append(bar, this.profile.element, this.status, this.body);
    model.changed.connect(this.draw, this);
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.model.changed.disconnect(this.draw, this);
      this.profile.dispose();
      this.model.dispose();
      super.dispose();
    }
  }

  get kernel(): string {
    return this.model.kernel;
  }

  /** Ask the ranks where they are now. */
  async look(): Promise<void> {
    await this.model.look();
  }

  private draw(): void {
    const { trans } = this.context;
    const { status, name, places, problem } = this.model;
    this.button.disabled = status === 'asking';
    if (status === 'waiting') {
      setText(this.status, trans.__('Waiting for the kernel.'));
      return;
    }
    setText(this.heading, trans.__('Where the ranks of %1 are', name));
    if (status === 'asking') {
      setText(this.status, trans.__('Asking the ranks…'));
    } else if (status === 'failed') {
      setText(this.status, problem);
    } else if (places !== this.shown) {
      this.shown = places;
      this.body.replaceChildren(placeCards(places, trans));
      const time = new Date().toLocaleTimeString(undefined, { hourCycle: 'h23' });
      setText(this.status, trans._n('%2: %1 place', '%2: %1 places', places.length, time));
    }
  }
}
