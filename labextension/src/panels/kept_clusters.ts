// The clusters with no kernel, below those of the kernels: which there are, the server finds in their folders.
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { h } from '../components/dom';
import { attachLine, type KeptCluster, withoutKernel } from '../model/kept';
import type { CurrentNotebook } from '../notebook/current';
import { type Context, sentence } from './context';
import { KeptCard } from './kept_card';

export class KeptClusters {
  readonly element = h('div', { class: 'ddl-clusters' });
  private readonly cards = new Map<string, KeptCard>();
  private kept: readonly KeptCluster[] = [];

  /** @param run runs a line in the notebook in front. */
  constructor(
    private readonly context: Context,
    private readonly notebook: CurrentNotebook,
    private readonly run: (line: string) => void,
  ) {}

  /** The names that they have. */
  get names(): string[] {
    return this.kept.map(({ name }) => name);
  }

  /** Ask the server which there are. */
  async ask(): Promise<void> {
    const { connection, hub } = this.context;
    try {
      this.kept = hub.isConnected ? await connection.keptClusters() : [];
    } catch {
      // It is asked again, and the connection tells whether it is there.
      this.kept = [];
    }
    this.draw();
  }

  /** @param isBusy a line runs in the notebook already. */
  draw(isBusy = false): void {
    const { hub, trans } = this.context;
    const shown = hub.isConnected ? withoutKernel(this.kept, hub.withRanks()) : [];
    const keys = new Set(shown.map(keyOf));
    for (const [key, card] of this.cards) {
      if (!keys.has(key)) {
        card.element.remove();
        this.cards.delete(key);
      }
    }
    const { panel, kernel } = this.notebook;
    const hasRanks = hub.withRanks().some((state) => state.kernel === kernel?.id);
    const why = hasRanks ? trans.__('The notebook in front has ranks.') : trans.__('Open a notebook that has a kernel, which gets the ranks.');
    const where = panel === null || kernel === null || hasRanks || isBusy ? null : panel.context.path;
    for (const cluster of shown) {
      this.cardOf(cluster).allow(where, why);
    }
  }

  private cardOf(cluster: KeptCluster): KeptCard {
    let card = this.cards.get(keyOf(cluster));
    if (card === undefined) {
      card = new KeptCard(
        this.context.trans,
        cluster,
        () => this.run(attachLine(cluster)),
        () => void this.stop(cluster),
      );
      this.cards.set(keyOf(cluster), card);
      this.element.append(card.element);
    }
    return card;
  }

  private async stop({ name }: KeptCluster): Promise<void> {
    const { trans, connection } = this.context;
    const { button } = await showDialog({
      title: trans.__('Stop the ranks of %1?', name),
      body: trans.__('No kernel of this server has them. What their cells defined is lost.'),
      buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('Stop') })],
      defaultButton: 0,
    });
    if (!button.accept) {
      return;
    }
    try {
      await connection.stopCluster(name);
    } catch (error) {
      await showDialog({ title: trans.__('That did not work'), body: sentence(error), buttons: [Dialog.okButton()] });
    }
    await this.ask();
  }
}

/** A cluster that is started again has another card. */
function keyOf({ name, start_s: start }: KeptCluster): string {
  return `${name} ${start}`;
}
