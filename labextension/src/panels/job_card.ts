// A batch job that no notebook uses: where it is, the line that waits for its ranks, and its end.
import type { TranslationBundle } from '@jupyterlab/translation';
import { h, setAttribute, setText } from '../components/dom';
import { attachJobLine, type BatchJob } from '../model/jobs';
import { timeLeft } from '../model/wall_time';
import { ranksText } from '../model/words';

export class JobCard {
  readonly element: HTMLElement;
  private readonly attach: HTMLButtonElement;
  private readonly state = h('span', { class: 'ddl-cluster-state' });
  private readonly where = h('p', { class: 'ddl-note' });

  constructor(
    private readonly trans: TranslationBundle,
    job: BatchJob,
    attach: () => void,
    end: () => void,
  ) {
    this.attach = h('button', { class: 'ddl-button' }, trans.__('Attach'));
    this.attach.addEventListener('click', attach);
    const ends = h('button', { class: 'ddl-button', title: trans.__('End the job: %1', job.title) }, trans.__('End…'));
    ends.addEventListener('click', end);
    const { name, title, world_size: count } = job;
    this.element = h(
      'section',
      { class: 'ddl-cluster ddl-kept ddl-job', 'aria-label': title },
      h(
        'header',
        { class: 'ddl-cluster-head' },
        h(
          'h3',
          {},
          h('span', { class: 'ddl-cluster-name', title: name }, name),
          h('span', { class: 'ddl-cluster-count' }, `\u00a0· ${ranksText(count, trans)}`),
        ),
        this.state,
      ),
      this.where,
      h('code', { class: 'ddl-start-line' }, attachJobLine(job)),
      h('div', { class: 'ddl-actions', role: 'toolbar', 'aria-label': trans.__('Ranks') }, this.attach, ends),
    );
    this.update(job);
  }

  update({ state, text, ends_at_s: endsAtS }: BatchJob): void {
    const { trans } = this;
    const left = state === 'running' ? timeLeft(endsAtS, Date.now() / 1000) : null;
    setText(this.state, trans.__(state));
    setText(this.where, left === null ? text : `${text} · ${trans.__('%1 left', left.text)}`);
  }

  /** Say in which notebook the line would run; null where in none, with the reason. */
  allow(notebook: string | null, why: string): void {
    this.attach.disabled = notebook === null;
    setAttribute(this.attach, 'title', notebook === null ? why : this.trans.__('Runs in %1', notebook));
  }
}
