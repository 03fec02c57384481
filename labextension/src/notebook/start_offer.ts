// Under a cell that wanted ranks where there were none: the button that starts them, and runs the cell on them.
import type { TranslationBundle } from '@jupyterlab/translation';
import { h, setHidden, setText } from '../components/dom';
import { keepTyping } from '../components/keys';
import type { HubModel } from '../model/hub';
import { RESTART, startOf } from '../model/no_ranks';
import { sentence, type Server } from '../model/server';
import { plainStart } from '../model/start';
import type { NotebookCell, NotebookPanel } from './panels';
import { runLine } from './start';

const CHANGING_MS = 100;

export interface Offering {
  readonly hub: HubModel;
  readonly server: Pick<Server, 'control' | 'keptClusters'>;
  readonly trans: TranslationBundle;
  /** Runs the active cell of the notebook in front. */
  readonly runCell: () => void;
}

/** Offer ranks under a notebook's cells until it is closed. */
export function offerRanks(panel: NotebookPanel, offering: Offering): void {
  const offers = new StartOffers(panel, offering);
  let timer = 0;
  const later = (): void => {
    window.clearTimeout(timer);
    timer = window.setTimeout(() => offers.draw(), CHANGING_MS);
  };
  panel.content.modelContentChanged.connect(later);
  offering.hub.changed.connect(later);
  panel.sessionContext.kernelChanged.connect(later);
  panel.disposed.connect(() => {
    window.clearTimeout(timer);
    offering.hub.changed.disconnect(later);
  });
  void panel.context.ready.then(later);
}

/** Those of one notebook: ranks are started from one cell at a time. */
class StartOffers {
  private readonly shown = new Map<NotebookCell, StartOffer>();
  private starting: NotebookCell | null = null;

  constructor(
    private readonly panel: NotebookPanel,
    private readonly offering: Offering,
  ) {}

  draw(): void {
    const { panel, offering } = this;
    const kernel = panel.sessionContext.session?.kernel?.id;
    const cluster = offering.hub.withRanks().find((state) => state.kernel === kernel)?.cluster ?? null;
    const cells = new Set(panel.content.widgets);
    for (const [cell, offer] of this.shown) {
      if (!cells.has(cell) || (cluster !== null && cell !== this.starting)) {
        offer.element.remove();
        this.shown.delete(cell);
      }
    }
    for (const cell of cells) {
      if (cell === this.starting) {
        this.offerOf(cell).showStep(cluster?.step ?? '');
      } else if (kernel !== undefined && cluster === null && startOfCell(cell) !== null) {
        this.offerOf(cell).allow(this.starting === null);
      } else if (this.shown.get(cell)?.hasFailed === false) {
        this.shown.get(cell)!.element.remove();
        this.shown.delete(cell);
      }
    }
  }

  private offerOf(cell: NotebookCell): StartOffer {
    let offer = this.shown.get(cell);
    if (offer === undefined) {
      offer = new StartOffer(this.offering.trans, startOfCell(cell) ?? '%ddl start', () => void this.start(cell));
      this.shown.set(cell, offer);
      cell.node.append(offer.element);
    }
    return offer;
  }

  private async start(cell: NotebookCell): Promise<void> {
    const { panel } = this;
    const kernel = panel.sessionContext.session?.kernel ?? null;
    if (kernel === null || this.starting !== null) {
      return;
    }
    this.starting = cell;
    this.draw();
    try {
      if (startOfCell(cell) === RESTART) {
        // The cell shows what came back of the variables, which a line that no cell has cannot.
        await this.offering.server.control(kernel.id, 'restart');
        this.run(cell);
        return;
      }
      const started = runLine(kernel, plainStart(await this.taken(), panel.context.path), this.offering.trans);
      // The kernel takes it after the start, and not at all where that fails.
      this.run(cell);
      await started;
    } catch (error) {
      this.shown.get(cell)?.fail(sentence(error));
    } finally {
      this.starting = null;
      this.draw();
    }
  }

  private run(cell: NotebookCell): void {
    const { content } = this.panel;
    const at = content.widgets.indexOf(cell);
    if (at >= 0) {
      content.deselectAll();
      content.activeCellIndex = at;
      this.offering.runCell();
    }
  }

  /** The names that clusters have. */
  private async taken(): Promise<ReadonlySet<string>> {
    const { hub, server } = this.offering;
    // A server that does not answer keeps none of its names: the kernel checks the name again.
    const kept = await server.keptClusters().catch(() => []);
    return new Set([...kept.map(({ name }) => name), ...hub.withRanks().map(({ cluster }) => cluster!.name)]);
  }
}

class StartOffer {
  readonly element: HTMLElement;
  hasFailed = false;
  private readonly button: HTMLButtonElement;
  private readonly step = h('span', { class: 'ddl-start-step', role: 'status' });
  private readonly fault = h('p', { class: 'ddl-start-fault', role: 'alert' });

  constructor(
    private readonly trans: TranslationBundle,
    line: string,
    start: () => void,
  ) {
    const title = trans.__('Executes %1 in the kernel, and then the cell', line);
    this.button = h('button', { class: 'ddl-button ddl-primary', title }, trans.__('Start ranks and run the cell'));
    this.button.addEventListener('click', start);
    this.element = h('div', { class: 'ddl-start-offer' }, this.button, this.step, this.fault);
    setHidden(this.fault, true);
    keepTyping(this.element);
  }

  /** @param isFree no other cell has ranks started already. */
  allow(isFree: boolean): void {
    this.button.disabled = !isFree;
    setText(this.step, '');
  }

  showStep(step: string): void {
    this.hasFailed = false;
    setHidden(this.fault, true);
    this.button.disabled = true;
    setText(this.step, step === '' ? this.trans.__('The ranks start…') : step);
  }

  fail(sentence: string): void {
    this.hasFailed = true;
    this.allow(true);
    setText(this.fault, sentence);
    setHidden(this.fault, false);
  }
}

function startOfCell({ model: { outputs } }: NotebookCell): ReturnType<typeof startOf> {
  for (let at = 0; at < (outputs?.length ?? 0); at++) {
    const line = startOf(outputs!.get(at).data);
    if (line !== null) {
      return line;
    }
  }
  return null;
}
