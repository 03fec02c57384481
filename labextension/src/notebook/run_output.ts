// A run's dashboard under its cell, from the hub: it is there whatever the kernel does, and when the page is loaded again.
// Of a run that this server does not have, the kernel's widget while it lasts, and then what the notebook keeps.
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import { Panel, PanelLayout, Widget } from '@lumino/widgets';
import { h } from '../components/dom';
import type { HubModel } from '../model/hub';
import type { LiveRuns } from '../model/live';
import { isFinal, RUN_MIME, runOf, SVG, TEXT, widgetOf } from '../model/run_output';
import { type RunPresence, RunPresences } from '../model/run_presence';
import type { Server } from '../model/server';
import type { RunView } from '../panels/run_view';
import { Fold } from './fold';
import { type NotebookPanel, outputsOf, type Rendering } from './panels';
import type { RankOutputs } from './rank_outputs';

// Before ipywidgets, which shows the same run as long as its kernel answers. Source: @jupyter-widgets/jupyterlab-manager 5,
// plugin.ts: its renderer of widget views has the rank -10.
const RANK = -20;

interface Context {
  readonly hub: Pick<HubModel, 'noticed'>;
  readonly runs: LiveRuns;
  readonly server: Pick<Server, 'opened' | 'runOrNull' | 'rankOutputs'>;
  readonly trans: TranslationBundle;
}

/** Have the notebook show runs. */
export function showRuns(panel: NotebookPanel, context: Context): void {
  const presences = new RunPresences(context.server, context.hub);
  panel.disposed.connect(() => presences.dispose());
  const createRenderer = (): RunOutput => new RunOutput(panel, context, presences);
  // Safe: what is in the notebook names a run of this server, and nothing else of it is drawn but text, and what is
  // rendered as it would be without us.
  panel.content.rendermime.addFactory({ safe: true, mimeTypes: [RUN_MIME], createRenderer }, RANK);
}

class RunOutput extends Widget {
  private view: RunView | null = null;
  private fold: Fold | null = null;
  private ranks: RankOutputs | null = null;
  private other: Rendering['renderer'] | null = null;
  private presence: RunPresence | null = null;
  private latest: Rendering['model'] | null = null;
  /** Whether the kernel has the widget of the output: it is asked once. */
  private kernelHas: Promise<boolean> | null = null;
  /** Counts what was to be rendered: an answer to an earlier question is too late. */
  private asked = 0;

  constructor(
    private readonly panel: NotebookPanel,
    private readonly context: Context,
    private readonly presences: RunPresences,
  ) {
    super();
    this.addClass('ddl-run-output');
    this.layout = new PanelLayout();
  }

  async renderModel(model: Rendering['model']): Promise<void> {
    if (this.view !== null) {
      return;
    }
    this.latest = model;
    const asked = ++this.asked;
    const run = runOf(model.data);
    // No hub, or another server's run, or one that was deleted.
    const isThere = run !== null && (await this.follow(run).isThere());
    // The dashboard's code is loaded with the first run that is shown. It is not there where the panel was installed again
    // since the page was loaded: its files have other names then.
    const loaded = isThere ? await Promise.all([import('../panels/run_view'), import('./rank_outputs')]).catch(() => null) : null;
    if (this.isDisposed || this.view !== null || asked !== this.asked) {
      return;
    }
    if (run !== null && loaded !== null) {
      const [{ RunView }, { RankOutputs }] = loaded;
      const view = new RunView(this.context, run, (live) => this.ranks?.update(live));
      const of = { run, isTrusted: model.trusted };
      this.ranks = new RankOutputs(this.context, this.panel.content.rendermime, of, view, this.layout as PanelLayout);
      this.showRun(run, view);
    } else if (isThere) {
      await this.showKept(model, this.context.trans.__('The panel was updated since this page was loaded. Load the page again to see the run.'));
    } else if (widgetOf(model.data) === null ? !isFinal(model.data) : this.knowsWidget(model.data)) {
      await this.showOther(model);
    } else {
      await this.showLeft(model, asked);
    }
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.fold?.release();
      this.ranks?.dispose();
      this.presence?.outdated.disconnect(this.renderAgain, this);
      super.dispose();
      this.view?.destroy();
    }
  }

  protected override onAfterAttach(_: Message): void {
    const area = outputsOf(this);
    if (area !== null) {
      this.fold?.attach(area);
    }
    this.view?.attach();
    if (this.isVisible) {
      this.view?.watch();
    }
  }

  protected override onAfterShow(): void {
    this.view?.watch();
  }

  protected override onBeforeHide(): void {
    this.view?.rest();
  }

  protected override onBeforeDetach(): void {
    this.view?.rest();
  }

  /** Return whether the server has the run; the output is rendered again where that changes. */
  private follow(run: string): RunPresence {
    if (this.presence?.run !== run) {
      this.presence?.outdated.disconnect(this.renderAgain, this);
      this.presence = this.presences.of(run);
      this.presence.outdated.connect(this.renderAgain, this);
    }
    return this.presence;
  }

  private renderAgain(): void {
    void this.renderModel(this.latest!);
  }

  private showRun(run: string, view: RunView): void {
    for (const widget of [...(this.layout as PanelLayout).widgets]) {
      widget.dispose();
    }
    // One that stands beside this.
    this.other?.dispose();
    this.show();
    this.view = view;
    this.fold = new Fold(run, this.context.trans);
    this.node.replaceChildren(view.element, this.fold.element);
    if (this.isAttached) {
      this.onAfterAttach(Widget.Msg.AfterAttach);
    }
  }

  /** Show what the run left in the notebook, or, of a run that had not ended when that was saved, what its kernel has. */
  private async showLeft(model: Rendering['model'], asked: number): Promise<void> {
    const { trans } = this.context;
    if (isFinal(model.data)) {
      await this.showKept(model, trans.__('This server does not have the run: this is what it left here at its end.'));
      return;
    }
    await this.showKept(model, trans.__('This server does not have the run: it is shown here when its kernel answers.'));
    // ipywidgets would show an error where the kernel is another one by now.
    const hasWidget = await (this.kernelHas ??= this.askKernel(widgetOf(model.data)));
    if (this.isDisposed || this.view !== null || asked !== this.asked) {
      return;
    }
    if (hasWidget) {
      await this.showOther(model);
    } else {
      await this.showKept(model, trans.__('This server does not have the run, and the notebook was saved before its end.'));
    }
  }

  /** Show the picture and the table that the run left in the notebook. */
  private async showKept({ data, metadata, trusted }: Rendering['model'], text: string): Promise<void> {
    const { rendermime } = this.panel.content;
    const parts = (trusted ? [SVG, TEXT] : [TEXT]).filter((type) => data[type] !== undefined);
    const renderers = parts.map((type) => rendermime.createRenderer(type));
    const note = new Widget({ node: h('p', { class: 'ddl-run-kept' }, text) });
    const layout = this.layout as PanelLayout;
    for (const widget of [...layout.widgets]) {
      widget.dispose();
    }
    for (const widget of [note, ...renderers]) {
      layout.addWidget(widget);
    }
    const model = rendermime.createModel({ data, metadata, trusted });
    await Promise.all(renderers.map((renderer) => renderer.renderModel(model)));
  }

  /** Show the output as it is shown without us: the kernel's widget, or the text. */
  private async showOther({ data, metadata, trusted }: Rendering['model']): Promise<void> {
    const { rendermime } = this.panel.content;
    const rest = Object.fromEntries(Object.entries(data).filter(([type]) => type !== RUN_MIME));
    const type = rendermime.preferredMimeType(rest, trusted ? 'any' : 'ensure');
    if (type === undefined) {
      return;
    }
    const renderer = this.other ?? this.addOther(type);
    await renderer.renderModel(rendermime.createModel({ data: rest, metadata, trusted }));
  }

  private addOther(type: string): Rendering['renderer'] {
    const renderer = this.panel.content.rendermime.createRenderer(type);
    this.other = renderer;
    if (this.parent instanceof Panel) {
      // ipywidgets looks for its renderers among an output's own children, to give them the kernel's widgets once it knows
      // of these. Source: @jupyter-widgets/jupyterlab-manager 5, plugin.ts, widgetRenderers
      renderer.addClass('jp-OutputArea-output');
      this.parent.addWidget(renderer);
      this.hide();
    } else {
      (this.layout as PanelLayout).addWidget(renderer);
    }
    return renderer;
  }

  /** Whether the kernel has told this page of the output's widget: it has it, then. */
  private knowsWidget(data: Rendering['model']['data']): boolean {
    const widget = widgetOf(data);
    return widget !== null && this.panel.sessionContext.session?.kernel?.hasComm(widget) === true;
  }

  /** Return whether the kernel has a widget; a busy one answers when its cell has ended. */
  private async askKernel(widget: string | null): Promise<boolean> {
    const { sessionContext } = this.panel;
    await sessionContext.ready;
    try {
      const told = await sessionContext.session?.kernel?.requestCommInfo({ target_name: 'jupyter.widget' });
      return widget !== null && told?.content.status === 'ok' && widget in told.content.comms;
    } catch {
      // It ended before it answered.
      return false;
    }
  }
}
