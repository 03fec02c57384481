// A run in the main area: the widget's dashboard, on the events of the hub.
import type { Message } from '@lumino/messaging';
import { h, setHidden, setText } from '../components/dom';
import type { LiveRun } from '../model/live';
import { CommandIDs } from '../tokens';
import { type Context, sentence } from './context';
import { LivePage } from './page';
import { RunView } from './run_view';
import { bytesText } from './texts';

export class RunPage extends LivePage {
  private readonly view: RunView;
  private readonly code = h('pre', { class: 'ddl-code' });
  private readonly cell: HTMLElement;
  private readonly problem = h('p', { class: 'ddl-fault-box', role: 'alert' });
  private readonly note: HTMLElement;
  private readonly logs: HTMLButtonElement;
  private isOver = false;

  constructor(
    private readonly context: Context,
    readonly run: string,
  ) {
    super();
    const { trans, commands } = context;
    this.view = new RunView(context, run, (live) => this.onChange(live));
    this.logs = h('button', { type: 'button', class: 'ddl-button' }, trans.__('Whole logs'));
    this.logs.addEventListener('click', () => void commands.execute(CommandIDs.openLog, { run }));
    this.cell = h('details', { class: 'ddl-cell-code' }, h('summary', {}, trans.__('The cell')), this.code);
    this.note = h('p', { class: 'ddl-hint', hidden: '' }, trans.__('This cell did not train.'));
    const bar = h('div', { class: 'ddl-page-bar' }, h('h2', {}, run), this.logs);
    this.node.append(bar, this.problem, this.note, this.view.element, this.cell);
    void this.tell();
  }

  protected override onAfterAttach(message: Message): void {
    this.view.attach();
    super.onAfterAttach(message);
  }

  override dispose(): void {
    if (!this.isDisposed) {
      super.dispose();
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
  private onChange({ model }: LiveRun): void {
    const isBare = model.isOver && model.step === null;
    setHidden(this.note, !isBare);
    this.view.element.classList.toggle('ddl-untrained', isBare);
    if (model.isOver && !this.isOver) {
      this.isOver = true;
      void this.tellSize();
    }
  }

  /** Say how much the ranks wrote: the page has the newest of it. */
  private async tellSize(): Promise<void> {
    const { trans, connection } = this.context;
    try {
      const bytes = (await connection.logSizes(this.run)).reduce((sum, log) => sum + log.bytes, 0);
      setText(this.logs, trans.__('Whole logs (%1)', bytesText(bytes)));
    } catch {
      // The logs' own page says what is wrong with them.
    }
  }

  private async tell(): Promise<void> {
    try {
      const { cell } = await this.context.connection.run(this.run);
      setText(this.code, cell);
    } catch (error) {
      setText(this.problem, sentence(error));
    }
  }
}
