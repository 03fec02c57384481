// One kernel's ranks: how they fare, and what can be done with them at any time.
import type { TranslationBundle } from '@jupyterlab/translation';
import { ellipsesIcon, listIcon, stopIcon } from '@jupyterlab/ui-components';
import { h, setAttribute, setHidden, setText } from '../components/dom';
import { number } from '../components/format';
import { RankList } from '../components/rank_list';
import type { HubModel } from '../model/hub';
import type { KernelState } from '../model/hub_messages';
import type { LiveRun } from '../model/live';
import { rankRows } from '../model/rank_rows';
import { timeLeft } from '../model/wall_time';
import { ranksText } from '../model/words';
import { CommandIDs } from '../tokens';
import type { Context } from './context';
import { iconButton } from './icon_button';
import { IdleNotice } from './idle_notice';
import { type Entry, showMenu } from './popup_menu';

export class ClusterCard {
  /** A line that unfolds. */
  readonly element: HTMLDetailsElement;
  private readonly head: HTMLElement;
  private readonly name = h('span', { class: 'ddl-cluster-name' });
  private readonly count = h('span', { class: 'ddl-cluster-count' });
  private readonly state = h('span', { class: 'ddl-cluster-state' });
  private readonly where = h('p', { class: 'ddl-note' });
  private readonly step = h('p', { class: 'ddl-step', role: 'status' });
  private readonly fault = h('p', { class: 'ddl-fault-box', role: 'alert', tabindex: '0' });
  /** The fault of an active run: a stall, or lost ranks. */
  private readonly look: HTMLButtonElement;
  private readonly report: HTMLButtonElement;
  private runAtFault: string | null = null;
  private readonly hub: HubModel;
  private readonly run = h('button', { class: 'ddl-run-link' });
  private readonly ranks: RankList;
  private readonly idle: IdleNotice;
  private readonly interrupt: HTMLButtonElement;
  private readonly stacks: HTMLButtonElement;
  /** What ends ranks is in a menu: it is never a slip beside what does not. */
  private readonly more: HTMLButtonElement;
  private runId: string | null = null;
  private wasOpen: boolean | null = null;
  /** The batch job that a start waits for. */
  private waitsFor: string | null = null;
  private canRestart = false;
  private readonly trans: TranslationBundle;
  private readonly canLook: boolean;
  private readonly canReport: boolean;

  constructor(
    private readonly context: Pick<Context, 'trans' | 'act' | 'can' | 'hub'>,
    private readonly kernel: string,
  ) {
    const { trans, act, can, hub } = context;
    this.trans = trans;
    this.hub = hub;
    this.canLook = can(CommandIDs.stacks);
    this.canReport = can(CommandIDs.reportRun);
    const acts = (made: HTMLButtonElement, command: string): HTMLButtonElement => {
      made.addEventListener('click', () => act(command, { kernel }));
      made.hidden = !can(command);
      return made;
    };
    const where = trans.__('Show where each rank is now');
    this.interrupt = acts(iconButton(stopIcon, trans.__('Interrupt'), trans.__('Release the ranks from the cell that runs')), CommandIDs.interrupt);
    this.stacks = acts(iconButton(listIcon, trans.__('Stacks'), where), CommandIDs.stacks);
    this.more = iconButton(ellipsesIcon, trans.__('More'), trans.__('A console on a rank; restart or stop the ranks'));
    setAttribute(this.more, 'aria-haspopup', 'menu');
    this.more.hidden = !can(CommandIDs.stop) && !can(CommandIDs.openConsole);
    this.more.addEventListener('click', () => this.showMenu());
    this.look = acts(h('button', { class: 'ddl-button ddl-fault-look', title: where }, trans.__('Show where the ranks are')), CommandIDs.stacks);
    const title = trans.__('See what support would get, and download it');
    this.report = h('button', { class: 'ddl-button ddl-fault-look', title }, trans.__('Report…'));
    this.report.addEventListener('click', () => act(CommandIDs.reportRun, { run: this.runAtFault ?? '' }));
    this.run.addEventListener('click', () => {
      if (this.runId !== null) {
        act(CommandIDs.openRun, { run: this.runId });
      }
    });
    this.idle = new IdleNotice(trans, () => act(CommandIDs.keep, { kernel }));
    this.ranks = new RankList(trans.__('Ranks'), trans, (rank, at) => this.showRankMenu(rank, at));
    const bar = h('div', { class: 'ddl-icon-bar', role: 'toolbar', 'aria-label': trans.__('Ranks') }, this.interrupt, this.stacks, this.more);
    this.head = h('summary', { class: 'ddl-cluster-head' }, h('h3', {}, this.name, this.count), this.state);
    this.element = h(
      'details',
      { class: 'ddl-cluster' },
      this.head,
      h('div', { class: 'ddl-cluster-line' }, this.where, bar),
      this.idle.element,
      this.step,
      this.fault,
      this.look,
      this.report,
      this.run,
      this.ranks.element,
    );
    this.element.addEventListener('toggle', () => this.resize());
  }

  /** Unfold the card, or fold it to a line. What a user unfolds or folds stays so until this changes. */
  unfold(isOpen: boolean): void {
    if (this.wasOpen !== isOpen) {
      this.wasOpen = isOpen;
      this.element.open = isOpen;
    }
  }

  update(kernel: KernelState, live: LiveRun | null, notebook: string): void {
    const { trans } = this;
    const { cluster } = kernel;
    if (cluster === null) {
      return;
    }
    const count = cluster.ranks.length > 0 ? cluster.ranks.length : cluster.world_size;
    setText(this.name, cluster.name);
    setAttribute(this.name, 'title', cluster.name);
    setText(this.count, `\u00a0· ${ranksText(count, trans)}`);
    setText(this.state, trans.__(cluster.state));
    setAttribute(this.state, 'class', `ddl-cluster-state ddl-cluster-${cluster.state}`);
    const left = timeLeft(cluster.ends_at_s, Date.now() / 1000);
    setText(this.where, left === null ? notebook : `${notebook} · ${trans.__('its batch job has %1 left', left.text)}`);
    this.where.classList.toggle('ddl-time-soon', left?.isSoon ?? false);
    setAttribute(this.where, 'title', cluster.note);
    this.idle.update(cluster.idle_ends_at_s, cluster.keeps_variables);
    setText(this.step, cluster.step ?? cluster.held ?? '');
    const fault = kernel.fault?.text ?? '';
    setText(this.fault, fault);
    this.head.classList.toggle('ddl-has-fault', fault !== '');
    setAttribute(this.head, 'title', fault);
    setHidden(this.look, !this.canLook || kernel.fault === null || kernel.run === null);
    this.runAtFault = this.canReport ? this.hub.runAtFault(kernel) : null;
    setHidden(this.report, this.runAtFault === null);
    this.runId = kernel.run;
    this.run.hidden = kernel.run === null;
    const rate = live?.model.means.rate();
    const figure = rate === undefined || rate.ranks === 0 ? '' : ` · ${trans.__('%1 samples/s', number(rate.total))}`;
    setText(this.run, `${trans.__('Open the run')}${figure}`);
    setAttribute(this.run, 'title', kernel.run ?? '');
    this.interrupt.disabled = kernel.run === null && cluster.state !== 'running';
    this.stacks.disabled = cluster.ranks.length === 0;
    this.waitsFor = cluster.state === 'starting' ? cluster.job : null;
    this.canRestart = cluster.state !== 'starting' && cluster.state !== 'rebuilding';
    this.ranks.update(rankRows(cluster, kernel.run === null ? null : (live?.model ?? null), this.context.trans));
  }

  resize(): void {
    this.ranks.resize();
  }

  private showMenu(): void {
    const { trans, kernel } = this;
    const { act, can } = this.context;
    const { right, bottom } = this.more.getBoundingClientRect();
    const ends = this.waitsFor === null ? trans.__('Stop…') : trans.__('End %1…', this.waitsFor);
    const console = { label: trans.__('Open a Console on a Rank…'), act: () => act(CommandIDs.openConsole, { kernel }), isEnabled: this.waitsFor === null };
    const ending: Entry[] = [
      { label: trans.__('Restart…'), act: () => act(CommandIDs.restart, { kernel }), isEnabled: this.canRestart },
      { label: ends, act: () => act(CommandIDs.stop, { kernel }) },
    ];
    const parts: Entry[][] = [can(CommandIDs.openConsole) ? [console] : [], can(CommandIDs.stop) ? ending : []];
    const entries = parts.filter(({ length }) => length > 0).flatMap((part, at) => (at === 0 ? part : ['separator' as const, ...part]));
    showMenu(entries, right, bottom, this.more);
  }

  private showRankMenu(rank: number, { clientX, clientY }: MouseEvent): boolean {
    const { trans, kernel } = this;
    const { act, can } = this.context;
    const ofConsole: Entry[] = [
      { label: trans.__('Open a Console on Rank %1', rank), act: () => act(CommandIDs.openConsole, { kernel, rank }) },
      { label: trans.__('Run Selected Text or Cell on Rank %1', rank), act: () => act(CommandIDs.runOnRank, { kernel, rank }) },
    ];
    const ofDebugger: Entry[] = [
      { label: trans.__('Debug on Rank %1', rank), act: () => act(CommandIDs.debugRank, { kernel, rank }) },
      { label: trans.__('Debug This Cell on Rank %1', rank), act: () => act(CommandIDs.debugCell, { kernel, rank }) },
    ];
    const entries = [...(can(CommandIDs.openConsole) ? ofConsole : []), ...(can(CommandIDs.debugRank) ? ofDebugger : [])];
    if (entries.length === 0) {
      return false;
    }
    showMenu(entries, clientX, clientY, this.ranks.element);
    return true;
  }
}
