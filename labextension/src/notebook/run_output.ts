// A run's dashboard under its cell, from the hub: it is there whatever the kernel does, and when the page is loaded again.
import type { Message } from '@lumino/messaging';
import { Panel, PanelLayout, Widget } from '@lumino/widgets';
import type { LiveRuns } from '../model/live';
import { isRecord } from '../model/parse';
import type { Server } from '../model/server';
import { RunView } from '../panels/run_view';
import type { NotebookPanel, Rendering } from './panels';

/** As jupyter_ddl/views/widget.py writes it. */
export const RUN_MIME = 'application/vnd.jupyter-ddl.run+json';
// Before ipywidgets, which shows the same run as long as its kernel answers. Source: @jupyter-widgets/jupyterlab-manager 5,
// plugin.ts: its renderer of widget views has the rank -10.
const RANK = -20;

/** Have the notebook show runs. */
export function showRuns(panel: NotebookPanel, runs: LiveRuns, server: Server): void {
  const { rendermime } = panel.content;
  const createRenderer = (): RunOutput => new RunOutput(runs, server, rendermime);
  // Safe: what is in the notebook names a run of this server, and nothing else.
  rendermime.addFactory({ safe: true, mimeTypes: [RUN_MIME], createRenderer }, RANK);
}

/** Return the run that an output shows; null for other outputs. */
export function runOf(data: Readonly<Record<string, unknown>>): string | null {
  const found = data[RUN_MIME];
  return isRecord(found) && typeof found['run'] === 'string' ? found['run'] : null;
}

class RunOutput extends Widget {
  private view: RunView | null = null;
  private other: Rendering['renderer'] | null = null;

  constructor(
    private readonly runs: LiveRuns,
    private readonly server: Server,
    private readonly rendermime: Rendering['registry'],
  ) {
    super();
    this.addClass('ddl-run-output');
    this.layout = new PanelLayout();
  }

  async renderModel(model: Rendering['model']): Promise<void> {
    const run = runOf(model.data);
    // No hub, or another server's run, or one that was deleted.
    const record = run === null ? null : await this.server.runOrNull(run).catch(() => null);
    if (this.isDisposed || this.view !== null) {
      return;
    }
    if (run === null || record === null) {
      await this.renderOther(model);
      return;
    }
    this.view = new RunView(this.runs, run);
    this.node.append(this.view.element);
    if (this.isAttached) {
      this.onAfterAttach(Widget.Msg.AfterAttach);
    }
  }

  override dispose(): void {
    if (!this.isDisposed) {
      super.dispose();
      this.view?.destroy();
    }
  }

  protected override onAfterAttach(_: Message): void {
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

  /** Show the output as it is shown without us: the kernel's widget, or the text. */
  private async renderOther({ data, metadata, trusted }: Rendering['model']): Promise<void> {
    const rest = Object.fromEntries(Object.entries(data).filter(([type]) => type !== RUN_MIME));
    const type = this.rendermime.preferredMimeType(rest, trusted ? 'any' : 'ensure');
    if (type === undefined) {
      return;
    }
    const renderer = this.other ?? this.addOther(type);
    await renderer.renderModel(this.rendermime.createModel({ data: rest, metadata, trusted }));
  }

  private addOther(type: string): Rendering['renderer'] {
    const renderer = this.rendermime.createRenderer(type);
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
}
