// One kernel's ranks: how they fare, and what can be done with them at any time.
import type { TranslationBundle } from '@jupyterlab/translation';
import { h, setAttribute, setHidden, setText } from '../components/dom';
import { number } from '../components/format';
import { RankList } from '../components/rank_list';
import type { KernelState } from '../model/hub_messages';
import type { LiveRun } from '../model/live';
import { rankRows } from '../model/rank_rows';
import { timeLeft } from '../model/wall_time';
import { CommandIDs } from '../tokens';
import type { Context } from './context';

export class ClusterCard {
  readonly element: HTMLElement;
  private readonly name = h('span', { class: 'ddl-cluster-name' });
  private readonly count = h('span', { class: 'ddl-cluster-count' });
  private readonly state = h('span', { class: 'ddl-cluster-state' });
  private readonly where = h('p', { class: 'ddl-note' });
  private readonly step = h('p', { class: 'ddl-step', role: 'status' });
  private readonly fault = h('p', { class: 'ddl-fault-box', role: 'alert', tabindex: '0' });
  /** The fault of an active run: a stall, or lost ranks. */
  private readonly look: HTMLButtonElement;
  private readonly run = h('button', { type: 'button', class: 'ddl-run-link' });
  private readonly ranks: RankList;
  private readonly buttons: Readonly<Record<'interrupt' | 'stacks' | 'restart' | 'stop', HTMLButtonElement>>;
  private runId: string | null = null;
  private readonly trans: TranslationBundle;
  private readonly canLook: boolean;

  constructor(
    { trans, act, can }: Pick<Context, 'trans' | 'act' | 'can'>,
    kernel: string,
  ) {
    this.trans = trans;
    this.canLook = can(CommandIDs.stacks);
    const button = (text: string, title: string, command: string): HTMLButtonElement => {
      const made = h('button', { type: 'button', class: 'ddl-button', title }, text);
      made.addEventListener('click', () => act(command, { kernel }));
      made.hidden = !can(command);
      return made;
    };
    this.buttons = {
      interrupt: button(trans.__('Interrupt'), trans.__('Release the ranks from the cell that runs'), CommandIDs.interrupt),
      stacks: button(trans.__('Stacks'), trans.__('Show where each rank is now'), CommandIDs.stacks),
      restart: button(trans.__('Restart…'), trans.__('End the ranks and start new ones'), CommandIDs.restart),
      stop: button(trans.__('Stop…'), trans.__('End the ranks'), CommandIDs.stop),
    };
    this.look = button(trans.__('Show where the ranks are'), trans.__('Show where each rank is now'), CommandIDs.stacks);
    this.look.classList.add('ddl-fault-look');
    this.run.addEventListener('click', () => {
      if (this.runId !== null) {
        act(CommandIDs.openRun, { run: this.runId });
      }
    });
    this.ranks = new RankList(trans.__('Ranks'), (word) => trans.__(word));
    const bar = h('div', { class: 'ddl-actions', role: 'toolbar', 'aria-label': trans.__('Ranks') }, ...Object.values(this.buttons));
    this.element = h(
      'section',
      { class: 'ddl-cluster' },
      h('header', { class: 'ddl-cluster-head' }, h('h3', {}, this.name, this.count), this.state),
      this.where,
      this.step,
      this.fault,
      this.look,
      bar,
      this.run,
      this.ranks.element,
    );
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
    setText(this.count, `\u00a0· ${trans._n('%1 rank', '%1 ranks', count)}`);
    setText(this.state, trans.__(cluster.state));
    setAttribute(this.state, 'class', `ddl-cluster-state ddl-cluster-${cluster.state}`);
    const left = timeLeft(cluster.ends_at_s, Date.now() / 1000);
    setText(this.where, left === null ? notebook : `${notebook} · ${trans.__('its batch job has %1 left', left.text)}`);
    this.where.classList.toggle('ddl-time-soon', left?.isSoon ?? false);
    setAttribute(this.where, 'title', cluster.note);
    setText(this.step, cluster.step ?? '');
    setText(this.fault, kernel.fault?.text ?? '');
    setHidden(this.look, !this.canLook || kernel.fault === null || kernel.run === null);
    this.runId = kernel.run;
    this.run.hidden = kernel.run === null;
    const rate = live?.model.means.rate();
    const figure = rate === undefined || rate.ranks === 0 ? '' : ` · ${trans.__('%1 samples/s', number(rate.total))}`;
    setText(this.run, `${trans.__('Open the run')}${figure}`);
    setAttribute(this.run, 'title', kernel.run ?? '');
    this.buttons.interrupt.disabled = kernel.run === null && cluster.state !== 'running';
    this.buttons.stacks.disabled = cluster.ranks.length === 0;
    const isWaited = cluster.state === 'starting' && cluster.job !== null;
    setAttribute(this.buttons.stop, 'title', isWaited ? trans.__('End the job: %1', cluster.job) : trans.__('End the ranks'));
    this.buttons.restart.disabled = cluster.state === 'starting' || cluster.state === 'rebuilding';
    this.ranks.update(rankRows(cluster, kernel.run === null ? null : (live?.model ?? null)));
  }

  resize(): void {
    this.ranks.resize();
  }
}
