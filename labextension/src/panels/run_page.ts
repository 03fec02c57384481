// A run in the main area: the widget's dashboard, on the events of the hub.
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { bugIcon, notebookIcon } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { PanelLayout } from '@lumino/widgets';
import { h, setHidden, setText } from '../components/dom';
import { size } from '../components/format';
import { whatText } from '../components/run_rows';
import { compareIcon } from '../icons';
import type { LiveRun } from '../model/live';
import type { RunDetailsModel } from '../model/run_details';
import { idText } from '../model/runs';
import type { Server } from '../model/server';
import { TimelineTab } from './timeline_tab';
import { RankOutputs } from '../notebook/rank_outputs';
import { CommandIDs } from '../tokens';
import type { Context } from './context';
import { iconButton } from './icon_button';
import { LivePage } from './page';
import { RunView } from './run_view';

export class RunPage extends LivePage {
  private readonly view: RunView;
  private readonly ranks: RankOutputs | null;
  private readonly code = h('pre', { class: 'ddl-code' });
  private readonly cell: HTMLElement;
  private readonly problem = h('p', { class: 'ddl-fault-box', role: 'alert' });
  private readonly note: HTMLElement;
  private readonly logs: HTMLButtonElement;
  private readonly error: HTMLButtonElement;
  /** The rank that failed first, or was lost. */
  private failed: number | null = null;
  private readonly labels = h('p', { class: 'ddl-note ddl-run-labels' });
  private readonly toCell: HTMLButtonElement;
  private isOver = false;
  private isBare = false;
  private readonly tab: TimelineTab;

  constructor(
    private readonly context: Context,
    private readonly details: RunDetailsModel,
    server: Pick<Server, 'rankOutputs' | 'timeline' | 'fileUrl'>,
    rendermime: IRenderMimeRegistry | null,
  ) {
    super();
    const layout = new PanelLayout();
    this.layout = layout;
    const { trans, act, can } = context;
    const { run } = details;
    this.view = new RunView(context, run, (live) => this.onChange(live));
    this.logs = h('button', { class: 'ddl-button' }, trans.__('Whole logs'));
    this.logs.addEventListener('click', () => act(CommandIDs.openLog, { run, ...asked(this.view.rank) }));
    this.error = h('button', { class: 'ddl-button', hidden: '' });
    this.error.addEventListener('click', () => act(CommandIDs.openLog, { run, ...asked(this.failed), at: 'last error' }));
    this.toCell = iconButton(notebookIcon, trans.__('Go to its cell'));
    this.toCell.hidden = true;
    this.toCell.addEventListener('click', () => void this.goToCell());
    const report = iconButton(bugIcon, trans.__('Report…'), trans.__('Make a file for support'));
    report.addEventListener('click', () => act(CommandIDs.reportRun, { run }));
    setHidden(report, !can(CommandIDs.reportRun));
    const board = iconButton(compareIcon, trans.__('TensorBoard'));
    board.addEventListener('click', () => act(CommandIDs.tensorboard, { run }));
    setHidden(board, !can(CommandIDs.tensorboard));
    this.cell = h('details', { class: 'ddl-cell-code' }, h('summary', {}, trans.__('The cell')), this.code);
    this.note = h('p', { class: 'ddl-hint', hidden: '' }, trans.__('This cell did not train.'));
    const bar = h('div', { class: 'ddl-page-bar' }, h('h2', {}, idText(run)), this.toCell, report, board, this.error, this.logs);
    this.tab = new TimelineTab(trans, server, run, () => this.choose());
    this.node.append(bar, this.labels, this.problem, this.tab.bar, this.note, this.view.element, this.cell, this.tab.place);
    // No notebook says here that its user trusts what is shown.
    const of = { run, isTrusted: false };
    this.ranks = rendermime === null ? null : new RankOutputs({ server, trans }, rendermime, of, this.view, layout);
    details.changed.connect(() => this.draw());
    void details.read();
  }

  get run(): string {
    return this.details.run;
  }

  protected override onAfterAttach(message: Message): void {
    this.view.attach();
    super.onAfterAttach(message);
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.ranks?.dispose();
      super.dispose();
      this.tab.dispose();
      this.details.dispose();
      this.view.destroy();
    }
  }

  protected override watch(): void {
    this.view.watch();
  }

  protected override rest(): void {
    this.view.rest();
  }

  /** Of a run that is over and did not train there are no figures, and none will come. */
  private onChange(live: LiveRun): void {
    const { model } = live;
    this.ranks?.update(live);
    this.failed = model.failedRank;
    setHidden(this.error, this.failed === null);
    setText(this.error, this.context.trans.__('Error in rank %1’s log', this.failed));
    this.isBare = model.isOver && model.step === null;
    this.choose();
    this.view.element.classList.toggle('ddl-untrained', this.isBare);
    if (model.isOver && !this.isOver) {
      this.isOver = true;
      void this.details.readLogSize();
      void this.details.read();
    }
  }

  protected override themed(): void {
    this.tab?.themed();
  }

  /** Show the run itself, or its timeline. */
  private choose(): void {
    const { isShown } = this.tab;
    [this.view.element, this.cell].forEach((element) => setHidden(element, isShown));
    setHidden(this.note, isShown || !this.isBare);
  }

  private async goToCell(): Promise<void> {
    setText(this.problem, '');
    setText(this.problem, await this.context.ask(CommandIDs.goToCell, { run: this.run }));
  }

  private draw(): void {
    const { cell, problem, logBytes, record } = this.details;
    const { trans, can } = this.context;
    const known = [this.run, ...(record === null ? [] : [whatText(record), record.tags.join(', '), record.note ?? ''])];
    setText(this.labels, known.filter((part) => part !== '').join(' · '));
    setHidden(this.toCell, record?.notebook == null || !can(CommandIDs.goToCell));
    setText(this.code, cell);
    setText(this.problem, problem);
    setHidden(this.tab.bar, !this.details.hasTimeline);
    // The page has the newest of what the ranks wrote.
    setText(this.logs, logBytes === null ? trans.__('Whole logs') : trans.__('Whole logs (%1)', size(logBytes)));
  }
}

/** Return the argument of a command that names a rank. */
function asked(rank: number | null): { rank?: string } {
  return rank === null ? {} : { rank: String(rank) };
}
