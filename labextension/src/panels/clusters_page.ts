// All clusters of the server, or of a JupyterHub, and the end of those that are idle: for who looks after others.
import { Widget } from '@lumino/widgets';
import { h, setHidden, setText } from '../components/dom';
import { duration, timeLeft } from '../components/format';
import type { ClusterSummary, ProblemReason, StopOutcome } from '../model/overview';
import { IDLE_CHOICES_S, type OverviewModel } from '../model/overview_model';
import { ClustersTable } from './clusters_table';
import type { Context } from './context';
import { isMeant, showProblem } from './dialogs';
import { LivePage } from './page';

const READ_EVERY_MS = 30_000;

export class ClustersPage extends LivePage {
  private readonly scope = h('select');
  private readonly idle = h('select');
  private readonly stop: HTMLButtonElement;
  private readonly again: HTMLButtonElement;
  private readonly whose: HTMLElement;
  private readonly status = h('p', { class: 'ddl-hint', role: 'status' });
  private readonly problems = h('ul', { class: 'ddl-server-problems' });
  private readonly box = h('div', { class: 'ddl-all-clusters-box', tabindex: '0', role: 'region' });
  private readonly table: ClustersTable;
  private timer = 0;
  /** What came of the last stop. */
  private told = '';

  constructor(
    private readonly context: Context,
    private readonly model: OverviewModel,
  ) {
    super();
    const { trans } = context;
    this.addClass('ddl-clusters-page');
    this.table = new ClustersTable(trans, (by) => model.sortBy(by));
    this.stop = button(trans.__('Stop idle ones…'), () => void this.ask());
    this.again = button(trans.__('Read again'), () => void model.read());
    this.scope.append(h('option', { value: '' }, trans.__('This server')), h('option', { value: 'hub' }, trans.__('All servers of JupyterHub')));
    this.scope.addEventListener('change', () => void model.show(this.scope.value === 'hub'));
    this.idle.append(...IDLE_CHOICES_S.map((seconds) => h('option', { value: String(seconds) }, timeLeft(seconds))));
    this.idle.addEventListener('change', () => model.chooseIdle(Number(this.idle.value)));
    this.whose = h('label', {}, trans.__('Of'), this.scope);
    this.box.setAttribute('aria-label', trans.__('All clusters'));
    this.box.append(this.table.element);
    const tools = h('div', { class: 'ddl-compare-tools' }, this.whose, h('label', {}, trans.__('Idle for'), this.idle), this.stop, this.again);
    const bar = h('div', { class: 'ddl-page-bar' }, h('h2', {}, trans.__('All clusters')), tools);
    this.node.append(bar, this.status, this.problems, this.box);
    model.changed.connect(this.draw, this);
    this.draw();
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.model.changed.disconnect(this.draw, this);
      super.dispose();
    }
  }

  protected watch(): void {
    this.rest();
    void this.model.read();
    this.timer = window.setInterval(() => void this.model.read(), READ_EVERY_MS);
  }

  protected rest(): void {
    window.clearInterval(this.timer);
  }

  private draw(): void {
    const { trans } = this.context;
    const { clusters, idle, idleS, problems, status, problem, hasHub, isOfHub, order } = this.model;
    setHidden(this.whose, !hasHub);
    this.scope.value = isOfHub ? 'hub' : '';
    this.idle.value = String(idleS);
    this.stop.disabled = idle.length === 0;
    this.stop.title = idle.length === 0 ? trans.__('No cluster has been idle for so long.') : '';
    setHidden(this.box, clusters.length === 0);
    this.table.fill(clusters, order, Date.now() / 1000);
    this.problems.replaceChildren(...problems.map(({ user, server, reason }) => h('li', {}, this.problemText(server === '' ? user : `${user}/${server}`, reason))));
    setHidden(this.problems, problems.length === 0);
    setText(this.status, this.statusText(clusters.length, idle.length, status, problem));
  }

  private statusText(count: number, idle: number, status: OverviewModel['status'], problem: string): string {
    const { trans } = this.context;
    if (status === 'failed') {
      return problem;
    }
    if (status === 'reading') {
      return trans.__('Asking for the clusters…');
    }
    const found =
      count === 0
        ? trans.__('No cluster runs. Ranks that a notebook starts are listed here.')
        : trans._n('%1 cluster, %2 idle for %3 or longer', '%1 clusters, %2 idle for %3 or longer', count, idle, timeLeft(this.model.idleS));
    return this.told === '' ? found : `${this.told} ${found}`;
  }

  private async ask(): Promise<void> {
    const { trans } = this.context;
    const asked = this.model.idle;
    const names = asked.map((one) => h('li', {}, trans.__('%1 of %2, idle for %3', one.name, one.user, duration(one.idle_s ?? 0))));
    const note = `${this.lossText(asked)} ${trans.__('One that is used until then is left. Who stopped it is logged, and its notebook says so.')}`;
    const body = new Widget({ node: h('div', { class: 'ddl-stop-list' }, h('ul', {}, ...names), h('p', {}, note)) });
    if (await isMeant(trans._n('Stop %1 idle cluster?', 'Stop %1 idle clusters?', asked.length), body, trans.__('Stop'))) {
      await this.stopAll(asked);
    }
  }

  private async stopAll(asked: readonly ClusterSummary[]): Promise<void> {
    const { trans } = this.context;
    this.stop.disabled = true;
    setText(this.status, trans.__('Stopping…'));
    try {
      const outcomes = await this.model.stop(asked);
      this.told = outcomes.map(([{ name, user }, outcome]) => trans.__('%1 of %2: %3.', name, user, this.outcomeText(outcome))).join(' ');
      this.draw();
    } catch (error) {
      await showProblem(trans, error);
    }
  }

  private lossText(asked: readonly ClusterSummary[]): string {
    const { trans } = this.context;
    const kept = asked.filter((one) => one.keeps_variables).map(({ name }) => name);
    if (kept.length === 0) {
      return trans.__('What their cells defined is lost.');
    }
    return kept.length === asked.length
      ? trans.__('What their cells defined is saved, and %1 in its notebook loads it again.', '%ddl restart')
      : trans.__('What their cells defined is lost, but that of %1 is saved, and %2 in its notebook loads it again.', kept.join(', '), '%ddl restart');
  }

  private outcomeText(outcome: StopOutcome): string {
    const { trans } = this.context;
    const texts: Readonly<Record<StopOutcome, string>> = {
      stopped: trans.__('stopped'),
      used: trans.__('left, since it is used or was just now'),
      elsewhere: trans.__('left, since it runs on another host'),
      gone: trans.__('it had ended'),
      failed: trans.__('it could not be stopped'),
    };
    return texts[outcome];
  }

  private problemText(server: string, reason: ProblemReason): string {
    const { trans } = this.context;
    const texts: Readonly<Record<ProblemReason, string>> = {
      missing: trans.__('The server of %1 has no jupyter_ddl, or an older one: its clusters are not known.', server),
      refused: trans.__('The server of %1 is not open to you: its clusters are not known.', server),
      silent: trans.__('The server of %1 does not answer: its clusters are not known.', server),
      broken: trans.__('The server of %1 answers something else: its clusters are not known.', server),
    };
    return texts[reason];
  }
}

function button(label: string, press: () => void): HTMLButtonElement {
  const made = h('button', { class: 'ddl-button' }, label);
  made.addEventListener('click', press);
  return made;
}
