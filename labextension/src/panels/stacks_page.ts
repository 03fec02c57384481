// Where a cluster's ranks are now, side by side.
import { h, setText } from '../components/dom';
import { placeCards } from '../components/stack_places';
import { groupStacks, stacksOf } from '../model/stacks';
import { type Context, sentence } from './context';
import { Page } from './page';

export class StacksPage extends Page {
  private readonly body = h('div');
  private readonly told = h('p', { class: 'ddl-hint', role: 'status' });
  private readonly heading = h('h2');
  private readonly button: HTMLButtonElement;
  private hasLooked = false;

  constructor(
    private readonly context: Context,
    readonly kernel: string,
  ) {
    super();
    const { trans } = context;
    this.button = h('button', { type: 'button', class: 'ddl-button' }, trans.__('Look again'));
    this.button.addEventListener('click', () => void this.look());
    const bar = h('div', { class: 'ddl-page-bar' }, this.heading, this.button);
    this.node.append(bar, this.told, this.body);
    context.hub.changed.connect(this.lookWhenThere, this);
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.context.hub.changed.disconnect(this.lookWhenThere, this);
      super.dispose();
    }
  }

  /** A page that came back when JupyterLab was loaded again waits for its kernel to be told of. */
  private lookWhenThere(): void {
    const state = this.context.hub.kernels.get(this.kernel);
    if (!this.hasLooked && state !== undefined) {
      void this.look();
    }
  }

  /** Ask the ranks where they are now. */
  async look(): Promise<void> {
    const { trans, connection, hub } = this.context;
    const state = hub.kernels.get(this.kernel);
    if (state === undefined) {
      setText(this.told, trans.__('Waiting for the kernel.'));
      return;
    }
    this.hasLooked = true;
    setText(this.heading, trans.__('Where the ranks of %1 are', state.cluster?.name ?? ''));
    this.button.disabled = true;
    setText(this.told, trans.__('Asking the ranks…'));
    try {
      const places = groupStacks(stacksOf(await connection.control(this.kernel, 'stacks')));
      const words = { ranks: trans.__('Ranks'), rank: trans.__('Rank'), idle: trans.__('idle: waits for a cell') };
      this.body.replaceChildren(placeCards(places, words));
      const time = new Date().toLocaleTimeString(undefined, { hourCycle: 'h23' });
      setText(this.told, trans._n('%2: %1 place', '%2: %1 places', places.length, time));
    } catch (error) {
      setText(this.told, sentence(error));
    } finally {
      this.button.disabled = false;
    }
  }
}
