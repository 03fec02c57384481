// The table of ranks: a row each, sorted by any column; only rows in sight are in the page.
import type { Mean } from '../model/means';
import { splitOf } from '../model/means';
import { type Rank, STATES } from '../model/rank';
import type { RunModel } from '../model/run';
import { h, setAttribute, setText } from './dom';
import { gibibytes, LOOKS, loss, milliseconds, NOTHING, number, percent } from './format';
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
const ROW_HEIGHT = 22;
const PARTS = ['compute', 'exchange', 'input'] as const;

export class RankTable {
  readonly element: HTMLElement;
  private readonly head = h('div', { class: 'ddl-row ddl-head', role: 'row' });
  private readonly rows: VirtualRows;
  private readonly space = h('div', { class: 'ddl-space', role: 'presentation' });
  private ranks: Rank[] = [];
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
    this.rows = new VirtualRows(body, this.space, ROW_HEIGHT, makeRow, (row, index) => this.fill(row, index));
  }

  update(model: RunModel): void {
    this.model = model;
    for (const [at, column] of COLUMNS.entries()) {
      this.element.classList.toggle(`ddl-without-${at}`, column.isShown?.(model) === false);
    }
    setAttribute(this.element, 'aria-rowcount', String(model.ranks.length + 1));
    this.slowest = 0;
    for (const rank of model.ranks) {
      const step_s = model.means.of(rank).step_s ?? 0;
      this.slowest = Number.isFinite(step_s) ? Math.max(this.slowest, step_s) : this.slowest;
    }
    this.sort();
    this.rows.update(this.ranks.length);
  }

  resize(): void {
    this.rows.resize();
  }

  private sortBy(column: number): void {
    this.isDescending = column === this.sortedBy ? !this.isDescending : column !== 0 && column !== STATE;
    this.sortedBy = column;
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
    this.ranks = [...model.ranks].sort((a, b) => sign * (keyOf(a) - keyOf(b)) || a.rank - b.rank);
    for (const [at, cell] of [...this.head.children].entries()) {
      const order = at !== this.sortedBy ? 'none' : this.isDescending ? 'descending' : 'ascending';
      setAttribute(cell, 'aria-sort', order);
    }
  }

  private fill(row: HTMLElement, index: number): void {
    const rank = this.ranks[index];
    const shown = rank === undefined ? undefined : this.model?.means.of(rank);
    if (rank === undefined || shown === undefined) {
      return;
    }
    setAttribute(row, 'aria-rowindex', String(index + 2));
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
  return row;
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
