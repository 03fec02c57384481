// The batch jobs that no notebook uses, below the clusters with no kernel.
import { h, setText } from '../components/dom';
import { attachJobLine, type BatchJob } from '../model/jobs';
import type { JobsModel } from '../model/jobs_model';
import type { CurrentNotebook } from '../notebook/current';
import { attachable } from './attachable';
import type { Context } from './context';
import { isMeant, showProblem } from './dialogs';
import { JobCard } from './job_card';

export class JobsSection {
  readonly element = h('div', { class: 'ddl-clusters' });
  private readonly problem = h('p', { class: 'ddl-hint', role: 'status' });
  private readonly cards = new Map<string, JobCard>();

  /** @param run runs a line in the notebook in front. */
  constructor(
    private readonly context: Context,
    private readonly model: JobsModel,
    private readonly notebook: CurrentNotebook,
    private readonly run: (line: string) => void,
  ) {
    this.element.append(this.problem);
    model.changed.connect(() => this.draw());
  }

  /** @param isBusy a line runs in the notebook already. */
  draw(isBusy = false): void {
    const { problem, shown } = this.model;
    const { trans } = this.context;
    const titles = new Set(shown.map(({ title }) => title));
    for (const [title, card] of this.cards) {
      if (!titles.has(title)) {
        card.element.remove();
        this.cards.delete(title);
      }
    }
    setText(this.problem, problem === '' ? '' : trans.__('Batch jobs cannot be listed: %1', problem));
    this.problem.hidden = problem === '';
    const { where, why } = attachable(this.context, this.notebook, isBusy);
    for (const job of shown) {
      const card = this.cardOf(job);
      card.update(job);
      card.allow(where, why);
    }
  }

  private cardOf(job: BatchJob): JobCard {
    let card = this.cards.get(job.title);
    if (card === undefined) {
      card = new JobCard(
        this.context.trans,
        job,
        () => this.run(attachJobLine(job)),
        () => void this.end(job),
      );
      this.cards.set(job.title, card);
      this.element.append(card.element);
    }
    return card;
  }

  private async end({ job, title }: BatchJob): Promise<void> {
    const { trans } = this.context;
    const body = trans.__('It leaves its queue, or its ranks end and what their cells defined is lost. No kernel of this server has them.');
    if (!(await isMeant(trans.__('End %1?', title), body, trans.__('End')))) {
      return;
    }
    try {
      await this.model.end(job);
    } catch (error) {
      await showProblem(trans, error);
    }
  }
}
