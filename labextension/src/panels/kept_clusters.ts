// The clusters with no kernel, below those of the kernels.
import { h } from '../components/dom';
import { attachLine, type KeptCluster } from '../model/kept';
import type { KeptModel } from '../model/kept_model';
import type { CurrentNotebook } from '../notebook/current';
import { attachable } from './attachable';
import type { Context } from './context';
import { isMeant, showProblem } from './dialogs';
import { KeptCard } from './kept_card';

export class KeptClusters {
  readonly element = h('div', { class: 'ddl-clusters' });
  private readonly cards = new Map<string, KeptCard>();

  /** @param run runs a line in the notebook in front. */
  constructor(
    private readonly context: Context,
    private readonly model: KeptModel,
    private readonly notebook: CurrentNotebook,
    private readonly run: (line: string) => void,
  ) {
    model.changed.connect(() => this.draw());
  }

  /** @param isBusy a line runs in the notebook already. */
  draw(isBusy = false): void {
    const { shown } = this.model;
    const keys = new Set(shown.map(keyOf));
    for (const [key, card] of this.cards) {
      if (!keys.has(key)) {
        card.element.remove();
        this.cards.delete(key);
      }
    }
    const { where, why } = attachable(this.context, this.notebook, isBusy);
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
    const { trans } = this.context;
    const body = `${trans.__('No kernel of this server has them.')} ${trans.__('What their cells defined is lost.')}`;
    if (!(await isMeant(trans.__('Stop the ranks of %1?', name), body, trans.__('Stop')))) {
      return;
    }
    try {
      await this.model.stop(name);
    } catch (error) {
      await showProblem(trans, error);
    }
  }
}

/** A cluster that is started again has another card. */
function keyOf({ name, start_s: start }: KeptCluster): string {
  return `${name} ${start}`;
}
