// The table of ranks: a row each, sorted by any column; only rows in sight are in the page.
import { byHost, headingParts, type HostEntry, type HostHeading, isHeading } from '../model/host_groups';
import { deviceText, hostText } from '../model/links';
import type { Mean } from '../model/means';
import { splitOf } from '../model/means';
import { partName } from '../model/part_name';
import { type Rank, STATES } from '../model/rank';
import type { RunModel } from '../model/run';
import type { Words } from '../model/words';
import { h, setAttribute, setText } from './dom';
import { memorySize, LOOKS, loss, milliseconds, NOTHING, number, percent } from './format';
import { type Heading, HostHeadings, placesOf } from './host_headings';
import { VirtualRows } from './virtual';

interface TableColumn {
  readonly name: string;
  readonly text: (rank: Rank, shown: Mean) => string;
  /** What rows are sorted by. */
  readonly key: (rank: Rank, shown: Mean) => number;
  readonly isShown?: (model: RunModel) => boolean;
}

const columnsOf = (trans: Words): readonly TableColumn[] => [
  { name: trans.__('rank'), text: (rank) => String(rank.rank), key: (rank) => rank.rank },
  { name: trans.__('state'), text: (rank) => stateText(rank, trans), key: (rank) => STATES.indexOf(rank.state) },
  {
    name: trans.__('samples/s'),
    text: (_, shown) => number(shown.samples_per_s),
    key: (_, shown) => shown.samples_per_s ?? -1,
    isShown: (model) => model.hasTrained,
  },
  {
    name: trans.__('step'),
    text: (_, shown) => milliseconds(shown.step_s),
    key: (_, shown) => shown.step_s ?? -1,
    isShown: (model) => model.hasTrained,
  },
  {
    name: trans.__('of a step'),
    text: () => '',
    key: (_, shown) => splitOf(shown)?.compute_s ?? -1,
    isShown: (model) => model.hasTrained,
  },
  {
    name: trans.__('loss'),
    text: (_, shown) => loss(shown.loss),
    key: (_, shown) => shown.loss ?? -Infinity,
    isShown: (model) => model.hasTrained,
  },
  {
    name: trans.__('GPU'),
    text: (rank) => (rank.latest?.gpu_pct == null ? NOTHING : percent(rank.latest.gpu_pct / 100)),
    key: (rank) => rank.latest?.gpu_pct ?? -1,
    isShown: (model) => model.curves.hasGpu,
  },
  {
    name: trans.__('GPU memory'),
    text: (rank) => gpuMemory(rank, trans),
    key: (rank) => rank.latest?.gpu_memory_used_bytes ?? -1,
    isShown: (model) => model.curves.hasGpu,
  },
  { name: trans.__('CPU'), text: (rank) => percent(rank.latest === null ? null : rank.latest.cpu_pct / 100), key: (rank) => rank.latest?.cpu_pct ?? -1 },
  { name: trans.__('RSS'), text: (rank) => memorySize(rank.latest?.rss_bytes), key: (rank) => rank.latest?.rss_bytes ?? -1 },
];
const STATE = 1;
const SPLIT = 4;
const GPU = 6;
const ROW_HEIGHT = 22;
/** Rows count from 1, and the first one is the head. */
const FIRST_ROW = 2;
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
  private readonly columns: readonly TableColumn[];

  /** @param choose called with the rank of a row that is clicked. */
  constructor(
    private readonly trans: Words,
    choose: (rank: number) => void,
  ) {
    this.columns = columnsOf(trans);
    for (const [at, { name }] of this.columns.entries()) {
      const button = h('button', {}, name);
      button.addEventListener('click', () => this.sortBy(at));
      this.head.append(h('span', { class: `ddl-cell ddl-column-${at}`, role: 'columnheader' }, button));
    }
    const body = h('div', { class: 'ddl-rows', role: 'rowgroup', tabindex: '0', 'aria-label': trans.__('Ranks') }, this.space);
    this.element = h('div', { class: 'ddl-table', role: 'table', 'aria-label': trans.__('Ranks') }, this.head, body);
    this.headings = new HostHeadings(body, () => placesOf(this.ranks), () => this.redraw());
    this.space.addEventListener('click', ({ target }) => {
      const row = target instanceof Element ? target.closest('.ddl-row') : null;
      const rank = this.ranks[Number(row?.getAttribute('aria-rowindex') ?? NaN) - FIRST_ROW];
      if (rank !== undefined && !isHeading(rank)) {
        choose(rank.rank);
      }
    });
    this.rows = new VirtualRows(body, this.space, ROW_HEIGHT, () => makeRow(this.columns.length), (row, index) => this.fill(row, index));
    this.headings.drawnBy(this.rows);
  }

  update(model: RunModel): void {
    this.model = model;
    for (const [at, column] of this.columns.entries()) {
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
    const { key } = this.columns[this.sortedBy]!;
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
    setAttribute(row, 'aria-rowindex', String(index + FIRST_ROW));
    if (isHeading(rank)) {
      this.headings.fill(row, headingOf(rank, model, this.trans));
      return;
    }
    this.headings.fill(row, null);
    const shown = model.means.of(rank);
    for (const [at, column] of this.columns.entries()) {
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
    setAttribute(state, 'title', rank.straggler === null ? rank.problem : this.trans.__('slower in %1', partName(rank.straggler.spends_on, this.trans)));
  }

  private fillSplit(cell: HTMLElement, shown: Mean): void {
    const split = splitOf(shown);
    const shares: string[] = [];
    for (const [at, name] of PARTS.entries()) {
      const seconds = split?.[`${name}_s`] ?? 0;
      const share = this.slowest > 0 && Number.isFinite(seconds) ? seconds / this.slowest : 0;
      // In whole percents, which are pixels: what looks the same is left alone.
      setAttribute(cell.children[at]!, 'style', `width:${Math.round(share * 100)}%`);
      shares.push(`${partName(name, this.trans)} ${milliseconds(seconds)}`);
    }
    // The cell's name, too: it has no text.
    setAttribute(cell, 'title', split === null ? NOTHING : shares.join(', '));
  }
}

function makeRow(columns: number): HTMLElement {
  const row = h('div', { class: 'ddl-row', role: 'row' });
  for (let at = 0; at < columns; at += 1) {
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

function headingOf({ host, ranks, isFolded }: HostHeading<Rank>, model: RunModel, trans: Words): Heading {
  const rates = ranks.map((rank) => model.means.of(rank).samples_per_s).filter((one) => one !== null);
  const together = rates.length === 0 ? '' : trans.__('%1 samples/s', number(rates.reduce((sum, one) => sum + one, 0)));
  const faults = ranks.filter(({ state }) => state === 'failed' || state === 'lost').length;
  const network = ranks.map((rank) => hostText(rank.latest, trans)).find((text) => text !== '') ?? '';
  return { host, isFolded, text: headingParts(ranks.length, together, network, faults, trans).join(' · '), hasFault: faults > 0 };
}

function stateText(rank: Rank, trans: Words): string {
  const { sign, word } = LOOKS[rank.state];
  const more =
    rank.straggler !== null && rank.state === 'straggler'
      ? ` ×${number(rank.straggler.ratio)}`
      : '';
  return `${sign} ${trans.__(word)}${more}`;
}

function gpuMemory(rank: Rank, trans: Words): string {
  const used = rank.latest?.gpu_memory_used_bytes ?? null;
  const total = rank.latest?.gpu_memory_total_bytes ?? null;
  return total === null || used === null ? memorySize(used) : trans.__('%1 of %2', memorySize(used).replace(/ GiB$/, ''), memorySize(total));
}
