// The tabs of a run's output: all ranks' log, or what one rank showed, in the log's place.
import type { TranslationBundle } from '@jupyterlab/translation';
import type { PanelLayout } from '@lumino/widgets';
import { RankTabs } from '../components/rank_tabs';
import type { LiveRun } from '../model/live';
import { RankOutputsModel } from '../model/rank_outputs_model';
import type { Server } from '../model/server';
import type { RunView } from '../panels/run_view';
import type { Rendering } from './panels';
import type { RankOutputArea } from './rank_output_area';

interface Context {
  readonly server: Pick<Server, 'rankOutputs'>;
  readonly trans: TranslationBundle;
}

/** Of which run, and whether its notebook's user trusts what is shown. */
interface Of {
  readonly run: string;
  readonly isTrusted: boolean;
}

export class RankOutputs {
  private readonly tabs: RankTabs;
  private area: RankOutputArea | null = null;
  private rank: number | null = null;
  private isDisposed = false;

  /**
   * @param view has the log.
   * @param layout takes what a rank showed, below the view.
   */
  constructor(
    private readonly context: Context,
    private readonly rendermime: Rendering['registry'],
    private readonly of: Of,
    private readonly view: RunView,
    private readonly layout: PanelLayout,
  ) {
    this.tabs = new RankTabs(context.trans, (rank) => void this.show(rank));
    view.addAboveLog(this.tabs.element);
  }

  dispose(): void {
    this.isDisposed = true;
    this.area?.dispose();
  }

  update({ model }: LiveRun): void {
    this.tabs.update(model.ranks);
    this.area?.readOn();
  }

  private async show(rank: number | null): Promise<void> {
    this.rank = rank;
    this.view.showLog(rank === null ? null : (clicked) => this.tabs.show(clicked));
    this.area?.dispose();
    this.area = null;
    if (rank === null) {
      return;
    }
    const { RankOutputArea } = await import('./rank_output_area');
    // Another one may have been chosen meanwhile, and come before.
    if (this.isDisposed || this.rank !== rank || this.area !== null) {
      return;
    }
    const { server, trans } = this.context;
    const { run, isTrusted } = this.of;
    this.area = new RankOutputArea(new RankOutputsModel(server, run, rank), trans, this.rendermime, isTrusted);
    this.layout.addWidget(this.area);
    // Below the dashboard, above the fold of the cell's own lines.
    this.view.element.after(this.area.node);
  }
}
