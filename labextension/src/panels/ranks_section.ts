// The sidebar's upper part: the ranks of all kernels, and the form that starts some in the notebook in front.
import { type Message, MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { h, setText } from '../components/dom';
import { StartForm } from '../components/start_form';
import { followTheme } from '../components/theme';
import type { LiveRun } from '../model/live';
import type { JobsModel } from '../model/jobs_model';
import type { KeptModel } from '../model/kept_model';
import type { ExportRequest } from '../model/place';
import type { RoomModel } from '../model/room';
import { sentence } from '../model/server';
import { type KeptFields, proposeName, type StartFields, type Surroundings } from '../model/start';
import type { CurrentNotebook } from '../notebook/current';
import type { NotebookPanel } from '../notebook/panels';
import { ClusterCard } from './cluster_card';
import { ClustersLink } from './clusters_link';
import type { Context } from './context';
import { ExampleOffer } from './example_offer';
import { InsertOffer } from './insert_offer';
import { JobsSection } from './jobs_section';
import { KeptClusters } from './kept_clusters';
import { Problem } from './problem';
import { startTexts } from './texts';

/** The devices' free memory, and the clusters with no kernel, are read while one looks. */
const READ_EVERY_MS = 5000;

/** What the section shows besides the kernels' ranks. */
export interface RanksModels {
  readonly kept: KeptModel;
  readonly jobs: JobsModel;
  readonly room: RoomModel;
}

interface Shown {
  readonly card: ClusterCard;
  live: LiveRun | null;
}

export class RanksSection extends Widget {
  /** All that is shown: the section is as high as this. */
  readonly content = h('div', { class: 'ddl-section-content' });
  private readonly shown = new Map<string, Shown>();
  private readonly cards = h('div', { class: 'ddl-clusters' });
  private readonly empty = h('p', { class: 'ddl-hint' });
  private readonly problem: Problem;
  /** The notebook in which it came up. */
  private problemOf: unknown = null;
  private readonly kept: KeptClusters;
  private readonly jobs: JobsSection;
  private readonly insert: InsertOffer;
  private readonly form: StartForm;
  private readonly all: ClustersLink;
  private readonly example: ExampleOffer;
  /** What came of an export. */
  private readonly exported = h('pre', { class: 'ddl-exported', role: 'status' });
  private timer = 0;
  private starting = false;

  /**
   * @param starts runs a line in a kernel; it rejects with what the line raised.
   * @param exports makes a job of a notebook; it rejects with the reason.
   * @param remember keeps what the form holds.
   */
  constructor(
    private readonly context: Context,
    private readonly models: RanksModels,
    private readonly notebook: CurrentNotebook,
    private readonly starts: (line: string) => Promise<void>,
    private readonly exports: (panel: NotebookPanel, request: ExportRequest) => Promise<string>,
    remember: (fields: StartFields) => void,
  ) {
    super();
    const { trans } = context;
    this.addClass('ddl-panel');
    this.addClass('ddl-ranks-section');
    this.title.label = trans.__('Ranks');
    const start = (line: string): void => void this.submit(line);
    this.form = new StartForm(startTexts(trans), start, (request) => void this.export(request), remember);
    this.insert = new InsertOffer(trans);
    this.problem = new Problem(trans.__('Dismiss'));
    this.kept = new KeptClusters(context, models.kept, notebook, start);
    this.all = new ClustersLink(context);
    this.example = new ExampleOffer(context);
    this.jobs = new JobsSection(context, models.jobs, notebook, start);
    const lists = [this.cards, this.insert.element, this.kept.element, this.jobs.element, this.all.element];
    this.content.append(this.empty, this.problem.element, ...lists, this.form.element, this.example.element, this.exported);
    this.node.append(this.content);
    context.hub.changed.connect(() => this.update());
    models.room.changed.connect((room) => {
      this.form.showDevices(room.devices);
      this.form.showPlaces(room.places, room.problem);
      this.form.place(this.around());
    });
    notebook.changed.connect(() => this.update());
    followTheme(this.node, () => undefined);
  }

  /** Put what was typed last time into the form. */
  restore(fields: KeptFields): void {
    this.form.fill(fields);
  }

  focusForm(): void {
    MessageLoop.sendMessage(this, Widget.Msg.UpdateRequest);
    this.form.focus();
  }

  protected override onAfterShow(): void {
    this.models.kept.isWatched = true;
    this.update();
    this.read();
    window.clearInterval(this.timer);
    this.timer = window.setInterval(() => this.read(), READ_EVERY_MS);
  }

  protected override onAfterAttach(): void {
    if (this.isVisible) {
      this.onAfterShow();
    }
  }

  protected override onBeforeHide(): void {
    this.rest();
  }

  protected override onBeforeDetach(): void {
    this.rest();
  }

  protected override onResize(): void {
    for (const { card } of this.shown.values()) {
      card.resize();
    }
  }

  protected override onUpdateRequest(_: Message): void {
    if (!this.isVisible) {
      return;
    }
    const { hub, nameOf, trans } = this.context;
    const kernels = hub.withRanks();
    const known = new Set(kernels.map(({ kernel }) => kernel));
    for (const [kernel, shown] of this.shown) {
      if (!known.has(kernel)) {
        this.follow(shown, null);
        shown.card.element.remove();
        this.shown.delete(kernel);
      }
    }
    for (const state of kernels) {
      const shown = this.cardOf(state.kernel);
      this.follow(shown, state.run);
      shown.card.update(state, shown.live, nameOf(state.kernel));
    }
    this.arrange();
    const kernel = this.notebook.kernel;
    const cluster = kernel === null ? null : (hub.kernels.get(kernel.id)?.cluster ?? null);
    this.kept.draw(this.starting);
    this.jobs.draw(this.starting);
    this.all.update();
    this.insert.draw(cluster === null || cluster.state === 'stopped' ? null : this.notebook.panel);
    this.form.element.hidden = this.starting || (cluster !== null && cluster.state !== 'stopped') || !hub.isConnected;
    if (this.problemOf !== this.notebook.panel) {
      this.problem.show('');
      setText(this.exported, '');
    }
    this.form.place(this.around());
    this.allow();
    const isWaiting = this.starting && cluster === null;
    this.empty.hidden = hub.isConnected && !isWaiting;
    const waits = trans.__('The ranks start once the notebook’s kernel has taken the line: after the cell that runs, if one does.');
    const silent = trans.__('The Jupyter server does not answer for jupyter_ddl. It is asked again every few seconds.');
    setText(this.empty, hub.isConnected ? waits : silent);
  }

  /** Put the ranks of the notebook in front first; others are a line that unfolds. */
  private arrange(): void {
    const front = this.shown.get(this.notebook.kernel?.id ?? '');
    for (const { card } of this.shown.values()) {
      card.unfold(card === front?.card || this.shown.size === 1);
    }
    if (front !== undefined && this.cards.firstElementChild !== front.card.element) {
      this.cards.prepend(front.card.element);
    }
  }

  private cardOf(kernel: string): Shown {
    let shown = this.shown.get(kernel);
    if (shown === undefined) {
      const card = new ClusterCard(this.context, kernel);
      shown = { card, live: null };
      this.shown.set(kernel, shown);
      this.cards.append(card.element);
    }
    return shown;
  }

  /** Watch the active run, and stop watching the one before. */
  private follow(shown: Shown, run: string | null): void {
    if (shown.live?.run === run) {
      return;
    }
    if (shown.live !== null) {
      shown.live.changed.disconnect(this.redraw, this);
      this.context.runs.close(shown.live);
    }
    shown.live = run === null ? null : this.context.runs.open(run);
    shown.live?.changed.connect(this.redraw, this);
  }

  private redraw(): void {
    this.update();
  }

  private rest(): void {
    this.models.kept.isWatched = false;
    window.clearInterval(this.timer);
    for (const shown of this.shown.values()) {
      this.follow(shown, null);
    }
  }

  /** What the form must know: which names are taken, and what room the host has. */
  private around(): Surroundings {
    const { hub, nameOf, trans } = this.context;
    const taken = new Map(this.models.kept.names.map((name) => [name, trans.__('no notebook: it was kept')]));
    for (const { kernel, cluster } of hub.withRanks()) {
      taken.set(cluster?.name ?? '', nameOf(kernel));
    }
    return { taken, proposed: proposeName(taken, this.notebook.panel?.context.path ?? null), host: this.models.room.host };
  }

  private allow(): void {
    const { trans } = this.context;
    const { panel, kernel } = this.notebook;
    this.example.show('', panel === null && this.context.hub.isConnected);
    if (panel === null) {
      this.form.allow(trans.__('Open a notebook: the ranks are its kernel’s.'), false);
    } else if (kernel === null) {
      this.form.allow(trans.__('Choose a kernel for %1: the ranks are its.', panel.context.path), false);
    } else {
      this.form.allow(trans.__('Runs in %1:', panel.context.path), true);
    }
  }

  private read(): void {
    if (document.hidden) {
      return;
    }
    // The time that a batch job has left passes without any message.
    this.update();
    const { kept, jobs, room } = this.models;
    void kept.read();
    void jobs.read();
    if (!this.form.element.hidden) {
      void room.read();
    }
  }

  private async export(request: ExportRequest): Promise<void> {
    const { panel } = this.notebook;
    this.problem.show('');
    this.problemOf = panel;
    setText(this.exported, '');
    try {
      setText(this.exported, panel === null ? '' : await this.exports(panel, request));
    } catch (error) {
      this.problem.show(sentence(error));
    }
  }

  private async submit(line: string): Promise<void> {
    const { panel } = this.notebook;
    this.problem.show('');
    this.problemOf = panel;
    this.starting = true;
    this.update();
    try {
      await this.starts(line);
      if (panel !== null) {
        this.insert.offer(panel, line);
      }
    } catch (error) {
      this.problem.show(sentence(error));
    } finally {
      this.starting = false;
      this.update();
    }
  }
}
