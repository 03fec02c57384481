// A cluster with no kernel: what it is, the line that gives a notebook its ranks, and its end.
import type { TranslationBundle } from '@jupyterlab/translation';
import { h, setAttribute } from '../components/dom';
import { whenText } from '../components/run_rows';
import { attachLine, type KeptCluster } from '../model/kept';
import { ranksText } from '../model/words';

export class KeptCard {
  readonly element: HTMLElement;
  private readonly attach: HTMLButtonElement;

  constructor(
    private readonly trans: TranslationBundle,
    cluster: KeptCluster,
    attach: () => void,
    stop: () => void,
  ) {
    this.attach = h('button', { class: 'ddl-button' }, trans.__('Attach'));
    this.attach.addEventListener('click', attach);
    const end = h('button', { class: 'ddl-button', title: trans.__('End the ranks') }, trans.__('Stop…'));
    end.addEventListener('click', stop);
    const { name, world_size: count, devices, start_s: start } = cluster;
    const on = devices.length === 0 ? trans.__('on the cores') : trans._n('on GPU %2', 'on GPUs %2', devices.length, devices.join(', '));
    this.element = h(
      'section',
      { class: 'ddl-cluster ddl-kept', 'aria-label': name },
      h(
        'header',
        { class: 'ddl-cluster-head' },
        h(
          'h3',
          {},
          h('span', { class: 'ddl-cluster-name', title: name }, name),
          h('span', { class: 'ddl-cluster-count' }, `\u00a0· ${ranksText(count, trans)}`),
        ),
        h('span', { class: 'ddl-cluster-state' }, trans.__('kept')),
      ),
      h('p', { class: 'ddl-note' }, trans.__('Since %1, %2. No kernel has them; what their cells defined is there.', whenText(start), on)),
      h('code', { class: 'ddl-start-line' }, attachLine(cluster)),
      h('div', { class: 'ddl-actions', role: 'toolbar', 'aria-label': trans.__('Ranks') }, this.attach, end),
    );
  }

  /** Say in which notebook the line would run; null where in none, with the reason. */
  allow(notebook: string | null, why: string): void {
    this.attach.disabled = notebook === null;
    setAttribute(this.attach, 'title', notebook === null ? why : this.trans.__('Runs in %1', notebook));
  }
}
