// All clusters as a table, whose headings sort it. Text, and never HTML: a name may be another user's.
import type { TranslationBundle } from '@jupyterlab/translation';
import { h } from '../components/dom';
import { duration, timeLeft } from '../components/format';
import { whenText } from '../components/run_rows';
import { type ClusterSummary, type Column, COLUMNS, type FaultKind, type Order } from '../model/overview';

const NUMBERS: ReadonlySet<Column> = new Set(['ranks', 'idle']);

export class ClustersTable {
  readonly element: HTMLTableElement;
  private readonly body = h('tbody');
  private readonly headings = new Map<Column, HTMLElement>();

  /** @param sort sorts by a column. */
  constructor(
    private readonly trans: TranslationBundle,
    sort: (by: Column) => void,
  ) {
    const names: Readonly<Record<Column, string>> = {
      user: trans.__('User'),
      name: trans.__('Cluster'),
      ranks: trans.__('Ranks'),
      devices: trans.__('Devices'),
      hosts: trans.__('Hosts'),
      since: trans.__('Since'),
      idle: trans.__('Idle for'),
      fault: trans.__('Last fault'),
    };
    for (const column of COLUMNS) {
      const button = h('button', { class: 'ddl-sort' }, names[column]);
      button.addEventListener('click', () => sort(column));
      this.headings.set(column, h('th', { scope: 'col', class: classOf(column) }, button));
    }
    const head = h('thead', {}, h('tr', {}, ...this.headings.values()));
    this.element = h('table', { class: 'ddl-all-clusters', 'aria-label': trans.__('All clusters') }, head, this.body);
  }

  fill(clusters: readonly ClusterSummary[], order: Order, nowS: number): void {
    for (const [column, heading] of this.headings) {
      heading.setAttribute('aria-sort', column !== order.by ? 'none' : order.isDescending ? 'descending' : 'ascending');
    }
    this.body.replaceChildren(...clusters.map((cluster) => this.row(cluster, nowS)));
  }

  private row(cluster: ClusterSummary, nowS: number): HTMLElement {
    const { trans } = this;
    const { user, server, name, job, hosts, state, idle_s: idle } = cluster;
    const texts: Readonly<Record<Column, string>> = {
      user: server === '' ? user : trans.__('%1 (server %2)', user, server),
      name: job === null ? name : trans.__('%1 (job %2)', name, job),
      ranks: String(cluster.world_size),
      devices: this.devices(cluster),
      hosts: hosts.join(', '),
      since: whenText(cluster.start_s),
      idle: idle === null ? trans.__(state) : duration(idle),
      fault: this.fault(cluster, nowS),
    };
    const cells = COLUMNS.map((column) => h('td', { class: classOf(column), title: texts[column] }, texts[column]));
    return h('tr', { class: `ddl-cluster-${state}` }, ...cells);
  }

  private devices({ devices, is_on_cores: onCores }: ClusterSummary): string {
    const { trans } = this;
    if (onCores) {
      return trans.__('cores');
    }
    return devices.length === 0 ? trans.__('GPUs of their hosts') : trans._n('GPU %2', 'GPUs %2', devices.length, devices.join(', '));
  }

  private fault({ fault_kind: kind, fault_at_s: at }: ClusterSummary, nowS: number): string {
    const { trans } = this;
    if (kind === null) {
      return '–';
    }
    const words: Readonly<Record<FaultKind, string>> = {
      raised: trans.__('error in a cell'),
      lost: trans.__('ranks lost'),
      stopped: trans.__('stopped'),
      silent: trans.__('silent'),
      unanswered: trans.__('no answer to a release'),
      stalled: trans.__('stalled'),
      interrupted: trans.__('interrupted'),
      'timed out': trans.__('timed out'),
      'cut off': trans.__('cut off'),
    };
    return at === null ? words[kind] : trans.__('%1, %2 ago', words[kind], timeLeft(nowS - at));
  }
}

function classOf(column: Column): string {
  return NUMBERS.has(column) ? 'ddl-numbers' : '';
}
