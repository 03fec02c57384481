// A console on one rank of a notebook's ranks: JupyterLab's own, on the notebook's session.
import { MainAreaWidget } from '@jupyterlab/apputils';
import type { ICompletionProviderManager } from '@jupyterlab/completer';
import type { IEditorServices } from '@jupyterlab/codeeditor';
import { CodeConsole } from '@jupyterlab/console';
import type { ITooltipManager } from '@jupyterlab/tooltip';
import type { TranslationBundle } from '@jupyterlab/translation';
import { stopIcon } from '@jupyterlab/ui-components';
import { UUID } from '@lumino/coreutils';
import { Widget } from '@lumino/widgets';
import { h, setText } from '../components/dom';
import { ConsoleModel, type ConsoleState } from '../model/console_model';
import type { HubModel } from '../model/hub';
import type { Server } from '../model/server';
import type { NotebookPanel } from './panels';
import { sessionOnRank } from './rank_session';

export interface ConsoleContext {
  readonly hub: HubModel;
  readonly server: Server;
  readonly trans: TranslationBundle;
  readonly editors: IEditorServices;
  readonly completions: ICompletionProviderManager | null;
  readonly tooltips: ITooltipManager | null;
}

export class RankConsole extends MainAreaWidget<CodeConsole> {
  private readonly state = h('span', { class: 'ddl-console-state', role: 'status' });
  private readonly stop: HTMLButtonElement;

  constructor(
    private readonly context: ConsoleContext,
    readonly panel: NotebookPanel,
    private readonly model: ConsoleModel,
  ) {
    const { trans } = context;
    const { rank } = model;
    const session = sessionOnRank(panel.sessionContext, model, context.server, () => bannerOf(trans, rank));
    const { factoryService, mimeTypeService } = context.editors;
    const content = new CodeConsole({
      contentFactory: new CodeConsole.ContentFactory({ editorFactory: factoryService.newInlineEditor }),
      rendermime: panel.content.rendermime,
      sessionContext: session,
      mimeTypeService,
    });
    super({ content });
    this.id = `jupyter-ddl-console-${UUID.uuid4()}`;
    this.addClass('ddl-rank-console');
    this.title.closable = true;
    const label = trans.__('Interrupt');
    this.stop = h('button', { class: 'ddl-icon-button', title: trans.__('Interrupt the code of this console'), 'aria-label': label });
    stopIcon.element({ container: this.stop, height: '16px', width: '16px', display: 'block' });
    this.stop.addEventListener('click', () => void this.interrupt());
    this.toolbar.addItem('interrupt', new Widget({ node: this.stop }));
    this.toolbar.addItem('state', new Widget({ node: this.state }));
    // The first one comes when the console is attached.
    content.promptCellCreated.connect(this.complete, this);
    model.changed.connect(this.draw, this);
    panel.sessionContext.kernelChanged.connect(this.draw, this);
    panel.disposed.connect(this.dispose, this);
    this.draw();
  }

  get rank(): number {
    return this.model.rank;
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.panel.sessionContext.kernelChanged.disconnect(this.draw, this);
      this.panel.disposed.disconnect(this.dispose, this);
      this.model.dispose();
      super.dispose();
    }
  }

  /** End the code of this console that runs, and nothing else: a cell of the notebook is ended there. */
  async interrupt(): Promise<void> {
    if (this.model.state === 'running') {
      await this.panel.sessionContext.session?.kernel?.interrupt();
    }
  }

  inspect(): void {
    const { content } = this;
    const editor = content.promptCell?.editor ?? null;
    const kernel = this.session?.kernel ?? null;
    if (editor !== null && kernel !== null) {
      this.context.tooltips?.invoke({ anchor: content, editor, kernel, rendermime: this.panel.content.rendermime });
    }
  }

  private get session(): ReturnType<typeof sessionOnRank>['session'] {
    return (this.content as unknown as { readonly sessionContext: ReturnType<typeof sessionOnRank> }).sessionContext.session;
  }

  private complete(): void {
    const editor = this.content.promptCell?.editor ?? null;
    void this.context.completions?.updateCompleter({ editor, session: this.session, widget: this });
  }

  private draw(): void {
    const { trans } = this.context;
    const { cluster, rank, state } = this.model;
    // Once its ranks are gone it keeps the name that it had.
    if (cluster !== null || this.title.label === '') {
      this.title.label = trans.__('Rank %1 of %2', rank, cluster?.name ?? this.panel.context.path);
      this.title.caption = this.panel.context.path;
    }
    setText(this.state, stateText(trans, state, rank));
    this.stop.disabled = state !== 'running';
  }
}

/** Make a console on a rank of a notebook's ranks. */
export function openConsole(context: ConsoleContext, panel: NotebookPanel, rank: number): RankConsole {
  const kernel = (): string | null => panel.sessionContext.session?.kernel?.id ?? null;
  return new RankConsole(context, panel, new ConsoleModel(context.hub, kernel, rank));
}

function bannerOf(trans: TranslationBundle, rank: number): string {
  return trans.__('What runs here runs on rank %1 alone, in turn with the cells of the notebook. Collectives, which need all ranks, belong into a cell.', rank);
}

function stateText(trans: TranslationBundle, state: ConsoleState, rank: number): string {
  switch (state) {
    case 'none':
      return trans.__('The notebook has no ranks: start some first.');
    case 'gone':
      return trans.__('The notebook has no rank %1 now.', rank);
    case 'idle':
      return '';
    case 'busy':
      return trans.__('A cell runs on the ranks: what you run here waits for its end.');
    case 'waiting':
      return trans.__('Waits for a cell of the notebook, which runs first.');
    case 'running':
      return trans.__('Runs on rank %1.', rank);
  }
}
