// A run in the main area: the widget's dashboard, on the events of the hub.
import type { Message } from '@lumino/messaging';
import { h, setText } from '../components/dom';
import { Dashboard } from '../components/dashboard';
import type { LiveRun } from '../model/live';
import { CommandIDs } from '../tokens';
import { type Context, sentence } from './context';
import { LivePage } from './page';

export class RunPage extends LivePage {
  private readonly dashboard = new Dashboard();
  private readonly code = h('pre', { class: 'ddl-code' });
  private readonly cell: HTMLElement;
  private readonly problem = h('p', { class: 'ddl-fault-box', role: 'alert' });
  private live: LiveRun | null = null;
  private isWatching = false;

  constructor(
    private readonly context: Context,
    readonly run: string,
  ) {
    super();
    const { trans, commands } = context;
    const logs = h('button', { type: 'button', class: 'ddl-button' }, trans.__('Whole logs'));
    logs.addEventListener('click', () => void commands.execute(CommandIDs.openLog, { run }));
    this.cell = h('details', { class: 'ddl-cell-code' }, h('summary', {}, trans.__('The cell')), this.code);
    const bar = h('div', { class: 'ddl-page-bar' }, h('h2', {}, run), logs);
    this.node.append(bar, this.problem, this.dashboard.element, this.cell);
    void this.tell();
  }

  protected override onAfterAttach(message: Message): void {
    this.dashboard.attach();
    super.onAfterAttach(message);
  }

  override dispose(): void {
    if (!this.isDisposed) {
      super.dispose();
      this.dashboard.destroy();
    }
  }

  protected override watch(): void {
    if (this.isWatching) {
      return;
    }
    this.isWatching = true;
    const { runs } = this.context;
    this.live = this.live === null ? runs.open(this.run) : runs.reopen(this.live);
    this.live.changed.connect(this.draw, this);
    this.draw();
  }

  protected override rest(): void {
    if (this.live !== null && this.isWatching) {
      this.isWatching = false;
      this.live.changed.disconnect(this.draw, this);
      this.context.runs.close(this.live);
    }
  }

  private draw(): void {
    if (this.live !== null) {
      this.dashboard.update(this.live.model);
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
