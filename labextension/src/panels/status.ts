// The status bar's item: how many ranks, how far or how fast, and in red what is wrong.
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';
import { h, setAttribute, setText } from '../components/dom';
import { rate as rateText } from '../components/format';
import { followTheme } from '../components/theme';
import type { KernelState } from '../model/hub_messages';
import type { RunModel } from '../model/run';
import { progressText } from '../model/training_progress';
import { idleEnd } from '../model/idle_end';
import { timeLeft } from '../model/wall_time';
import { ranksText } from '../model/words';
import type { CurrentNotebook } from '../notebook/current';
import { CommandIDs } from '../tokens';
import type { Context } from './context';
import { FollowedRun } from './followed_run';

const CLOCK_MS = 20_000;

export class StatusItem extends Widget {
  private readonly button = h('button', { class: 'ddl-status-button' });
  private readonly followed: FollowedRun;
  private readonly clock: ReturnType<typeof setInterval>;

  constructor(
    private readonly context: Context,
    private readonly notebook: CurrentNotebook,
  ) {
    super();
    this.followed = new FollowedRun(context.runs, () => this.update());
    this.addClass('ddl-panel');
    this.addClass('ddl-status');
    this.node.append(this.button);
    this.button.addEventListener('click', () => context.act(CommandIDs.showPanel));
    context.hub.changed.connect(() => this.update());
    notebook.changed.connect(() => this.update());
    followTheme(this.node, () => undefined);
    // The time that a batch job has left passes without any message.
    this.clock = setInterval(() => this.update(), CLOCK_MS);
    this.update();
  }

  override dispose(): void {
    clearInterval(this.clock);
    super.dispose();
  }

  protected override onUpdateRequest(): void {
    const state = this.kernel();
    this.followed.follow(state?.run ?? null);
    const { model } = this.followed;
    const fault = state?.fault?.text ?? null;
    const text = state === null ? '' : statusText(state, model, this.context.trans);
    setText(this.button, fault === null ? text : `${text} · ${fault}`);
    setAttribute(this.button, 'title', fault ?? [text, ratesText(model)].filter((part) => part !== '').join('\n'));
    const left = timeLeft(state?.cluster?.ends_at_s, Date.now() / 1000);
    this.node.classList.toggle('ddl-has-fault', fault !== null || (left?.isSoon ?? false));
    this.button.hidden = state === null;
  }

  /** The kernel of the notebook in front, else the only one that has ranks. */
  private kernel(): KernelState | null {
    const kernels = this.context.hub.withRanks();
    const current = this.notebook.kernel?.id;
    return kernels.find(({ kernel }) => kernel === current) ?? (kernels.length === 1 ? kernels[0]! : null);
  }
}

function statusText({ cluster }: KernelState, model: RunModel | null, trans: TranslationBundle): string {
  if (cluster === null) {
    return '';
  }
  const count = cluster.ranks.length > 0 ? cluster.ranks.length : cluster.world_size;
  const ranks = ranksText(count, trans);
  const left = timeLeft(cluster.ends_at_s, Date.now() / 1000);
  const end = left === null ? '' : ` · ${trans.__('%1 left', left.text)}`;
  const idle = idleEnd(cluster.idle_ends_at_s, Date.now() / 1000);
  const stop = idle?.isSoon === true ? ` · ${trans.__('Idle: ended in %1', idle.text)}` : '';
  const progress = model === null ? '' : progressText(model.progress, trans);
  const does = progress === '' ? ratesText(model) : progress;
  return `${ranks} · ${does === '' ? trans.__(cluster.state) : does}${end}${stop}`;
}

/** How fast all ranks train; empty where none does. */
function ratesText(model: RunModel | null): string {
  const rate = model?.means.rate();
  return rate === undefined || rate.ranks === 0 ? '' : rateText(rate.total, 'samples');
}
