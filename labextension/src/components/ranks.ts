// The table of ranks: a row each, sorted by any column; only rows in sight are in the page.
import { byHost, headingParts, type HostEntry, type HostHeading, isHeading } from '../model/host_groups';
import { deviceText, hostText } from '../model/links';
import type { Mean } from '../model/means';
import { splitOf } from '../model/means';
import { type Rank, STATES } from '../model/rank';
import type { RunModel } from '../model/run';
import { h, setAttribute, setText } from './dom';
import { gibibytes, LOOKS, loss, milliseconds, NOTHING, number, percent } from './format';
import { type Heading, HostHeadings, placesOf } from './host_headings';
import { VirtualRows } from './virtual';

interface TableColumn {
  readonly name: string;
  readonly text: (rank: Rank, shown: Mean) => string;
  /** What rows are sorted by. */
  readonly key: (rank: Rank, shown: Mean) => number;
  readonly isShown?: (model: RunModel) => boolean;
}

const COLUMNS: readonly TableColumn[] = [
  { name: 'rank', text: (rank) => String(rank.rank), key: (rank) => rank.rank },
  { name: 'state', text: stateText, key: (rank) => STATES.indexOf(rank.state) },
  {
    name: 'samples/s',
    text: (_, shown) => number(shown.samples_per_s),
    key: (_, shown) => shown.samples_per_s ?? -1,
    isShown: (model) => model.hasTrained,
  },
  {
    name: 'step',
    text: (_, shown) => milliseconds(shown.step_s),
    key: (_, shown) => shown.step_s ?? -1,
    isShown: (model) => model.hasTrained,
  },
  {
    name: 'of a step',
    text: () => '',
    key: (_, shown) => splitOf(shown)?.compute_s ?? -1,
    isShown: (model) => model.hasTrained,
  },
  {
    name: 'loss',
    text: (_, shown) => loss(shown.loss),
    key: (_, shown) => shown.loss ?? -Infinity,
    isShown: (model) => model.hasTrained,
  },
  {
    name: 'GPU',
    text: (rank) => (rank.latest?.gpu_pct == null ? NOTHING : percent(rank.latest.gpu_pct / 100)),
    key: (rank) => rank.latest?.gpu_pct ?? -1,
    isShown: (model) => model.curves.hasGpu,
  },
  {
    name: 'GPU memory',
    text: gpuMemory,
    key: (rank) => rank.latest?.gpu_memory_used_bytes ?? -1,
    isShown: (model) => model.curves.hasGpu,
  },
  { name: 'CPU', text: (rank) => percent(rank.latest === null ? null : rank.latest.cpu_pct / 100), key: (rank) => rank.latest?.cpu_pct ?? -1 },
  { name: 'RSS', text: (rank) => gibibytes(rank.latest?.rss_bytes), key: (rank) => rank.latest?.rss_bytes ?? -1 },
];
const STATE = 1;
const SPLIT = 4;
const GPU = 6;
const ROW_HEIGHT = 22;
const PARTS = ['compute', 'exchange', 'input'] as const;

export class RankTable {
  readonly element: HTMLElement;
  private readonly head = h('div', { class: 'ddl-row ddl-head', role: 'row' });
  private readonly rows: VirtualRows;
  private readonly space = h('div', { class: 'ddl-space', role: 'presentation' });
  private readonly headings: HostHeadings;
  /** The ranks as they are listed: by host where there are several and no column but the first sorts them. */
  private ranks: HostEntry<Rank>[] = [];
  private slowest = 0;
  private sortedBy = 0;
  private isDescending = false;
  private model: RunModel | null = null;

  constructor() {
    for (const [at, { name }] of COLUMNS.entries()) {
      const button = h('button', { type: 'button' }, name);
      button.addEventListener('click', () => this.sortBy(at));
      this.head.append(h('span', { class: `ddl-cell ddl-column-${at}`, role: 'columnheader' }, button));
    }
    const body = h('div', { class: 'ddl-rows', role: 'rowgroup', tabindex: '0', 'aria-label': 'Ranks' }, this.space);
    this.element = h('div', { class: 'ddl-table', role: 'table', 'aria-label': 'Ranks' }, this.head, body);
    this.headings = new HostHeadings(body, () => placesOf(this.ranks), () => this.redraw());
    this.rows = new VirtualRows(body, this.space, ROW_HEIGHT, makeRow, (row, index) => this.fill(row, index));
    this.headings.drawnBy(this.rows);
  }

  update(model: RunModel): void {
    this.model = model;
    for (const [at, column] of COLUMNS.entries()) {
      this.element.classList.toggle(`ddl-without-${at}`, column.isShown?.(model) === false);
    }
    this.slowest = 0;
    for (const rank of model.ranks) {
      const step_s = model.means.of(rank).step_s ?? 0;
      this.slowest = Number.isFinite(step_s) ? Math.max(this.slowest, step_s) : this.slowest;
    }
    this.sort();
    setAttribute(this.element, 'aria-rowcount', String(this.ranks.length + 1));
    this.rows.update(this.ranks.length);
  }

  resize(): void {
    this.rows.resize();
  }

  private sortBy(column: number): void {
    this.isDescending = column === this.sortedBy ? !this.isDescending : column !== 0 && column !== STATE;
    this.sortedBy = column;
    this.redraw();
  }

  private redraw(): void {
    if (this.model !== null) {
      this.update(this.model);
    }
  }

  private sort(): void {
    const { model } = this;
    if (model === null) {
      return;
    }
    const { key } = COLUMNS[this.sortedBy]!;
    const sign = this.isDescending ? -1 : 1;
    // NaN comes first: users look for it.
    const keys = new Map(model.ranks.map((rank) => [rank, key(rank, model.means.of(rank))]));
    const keyOf = (rank: Rank): number => {
      const found = keys.get(rank) ?? NaN;
      return Number.isNaN(found) ? -Infinity : found;
    };
    const sorted = [...model.ranks].sort((a, b) => sign * (keyOf(a) - keyOf(b)) || a.rank - b.rank);
    this.ranks = this.sortedBy === 0 ? byHost(sorted, this.headings.folded) : sorted;
    for (const [at, cell] of [...this.head.children].entries()) {
      const order = at !== this.sortedBy ? 'none' : this.isDescending ? 'descending' : 'ascending';
      setAttribute(cell, 'aria-sort', order);
    }
  }

  private fill(row: HTMLElement, index: number): void {
    const { model } = this;
    const rank = this.ranks[index];
    if (rank === undefined || model === null) {
      return;
    }
    setAttribute(row, 'aria-rowindex', String(index + 2));
    if (isHeading(rank)) {
      this.headings.fill(row, headingOf(rank, model));
      return;
    }
    this.headings.fill(row, null);
    const shown = model.means.of(rank);
    for (const [at, column] of COLUMNS.entries()) {
      const cell = row.children[at] as HTMLElement;
      if (at === SPLIT) {
        this.fillSplit(cell, shown);
      } else {
        setText(cell, column.text(rank, shown));
      }
    }
    const state = row.children[STATE] as HTMLElement;
    setAttribute(state, 'class', `ddl-cell ddl-column-${STATE} ddl-state-${rank.state}`);
    const gpu = row.children[GPU] as HTMLElement;
    setAttribute(gpu, 'title', deviceText(rank.latest));
    setAttribute(state, 'title', rank.straggler === null ? rank.problem : `slower in ${rank.straggler.spends_on}`);
  }

  private fillSplit(cell: HTMLElement, shown: Mean): void {
    const split = splitOf(shown);
    const shares: string[] = [];
    for (const [at, name] of PARTS.entries()) {
      const seconds = split?.[`${name}_s`] ?? 0;
      const share = this.slowest > 0 && Number.isFinite(seconds) ? seconds / this.slowest : 0;
      // In whole percents, which are pixels: what looks the same is left alone.
      setAttribute(cell.children[at]!, 'style', `width:${Math.round(share * 100)}%`);
      shares.push(`${name} ${milliseconds(seconds)}`);
    }
    // The cell's name, too: it has no text.
    setAttribute(cell, 'title', split === null ? NOTHING : shares.join(', '));
  }
}

function makeRow(): HTMLElement {
  const row = h('div', { class: 'ddl-row', role: 'row' });
  for (const at of COLUMNS.keys()) {
    const cell = h('span', { class: `ddl-cell ddl-column-${at}`, role: 'cell' });
    if (at === SPLIT) {
      cell.append(...PARTS.map((name) => h('span', { class: `ddl-part ddl-${name}` })));
    }
    row.append(cell);
  }
  // In place of the cells, where a row is a host's heading.
  row.append(h('span', { class: 'ddl-host-cell', role: 'cell' }, HostHeadings.button()));
  return row;
}

function headingOf({ host, ranks, isFolded }: HostHeading<Rank>, model: RunModel): Heading {
  const rates = ranks.map((rank) => model.means.of(rank).samples_per_s).filter((one) => one !== null);
  const together = rates.length === 0 ? '' : `${number(rates.reduce((sum, one) => sum + one, 0))} samples/s`;
  const faults = ranks.filter(({ state }) => state === 'failed' || state === 'lost').length;
  const network = ranks.map((rank) => hostText(rank.latest)).find((text) => text !== '') ?? '';
  return { host, isFolded, text: headingParts(ranks.length, together, network, faults).join(' · '), hasFault: faults > 0 };
}

function stateText(rank: Rank): string {
  const { sign, word } = LOOKS[rank.state];
  const more =
    rank.straggler !== null && rank.state === 'straggler'
      ? ` ×${number(rank.straggler.ratio)}`
      : '';
  return `${sign} ${word}${more}`;
}

function gpuMemory(rank: Rank): string {
  const used = rank.latest?.gpu_memory_used_bytes ?? null;
  const total = rank.latest?.gpu_memory_total_bytes ?? null;
  return total === null || used === null ? gibibytes(used) : `${number(used / 2 ** 30)} of ${gibibytes(total)}`;
}
