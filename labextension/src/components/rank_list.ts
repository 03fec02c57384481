// The ranks of a cluster in a narrow panel: two lines each; only those in sight are in the page.
import type { RankRow, Standing } from '../model/rank_rows';
import { h, setAttribute, setText } from './dom';
import { gibibytes, LOOKS, percent, rate as rateText, type StateLook, whole } from './format';
import { VirtualRows } from './virtual';

const ROW_HEIGHT = 40;
const MAX_ROWS = 8;
// The list's own, in its height: without it the rows need a scroll bar for a pixel.
const BORDER = 1;
const CELLS = ['state', 'rate', 'place', 'use'] as const;
const MORE_LOOKS: Readonly<Record<'ready' | 'silent' | 'ended', StateLook>> = {
  ready: { sign: '○', word: 'ready' },
  silent: { sign: '…', word: 'silent' },
  ended: { sign: '◇', word: 'ended with it' },
};

export class RankList {
  readonly element: HTMLElement;
  private readonly space = h('div', { class: 'ddl-space', role: 'presentation' });
  private readonly rows: VirtualRows;
  private ranks: readonly RankRow[] = [];

  /** @param words translates the word for a state. */
  constructor(
    label: string,
    private readonly words: (word: string) => string,
  ) {
    this.element = h('div', { class: 'ddl-rank-list', role: 'list', 'aria-label': label, tabindex: '0' }, this.space);
    this.rows = new VirtualRows(this.element, this.space, ROW_HEIGHT, makeRow, (row, at) => this.fill(row, at));
  }

  update(ranks: readonly RankRow[]): void {
    this.ranks = ranks;
    const height = `${Math.min(MAX_ROWS, ranks.length) * ROW_HEIGHT + BORDER}px`;
    if (this.element.style.height !== height) {
      this.element.style.height = height;
      this.rows.resize();
    }
    this.rows.update(ranks.length);
  }

  resize(): void {
    this.rows.resize();
  }

  private fill(row: HTMLElement, at: number): void {
    const rank = this.ranks[at];
    if (rank === undefined) {
      return;
    }
    const { sign, word } = looksOf(rank.standing);
    const [state, rate, place, use] = CELLS.map((cell) => row.querySelector<HTMLElement>(`.ddl-rank-${cell}`));
    setText(row.firstElementChild as HTMLElement, String(rank.rank));
    setText(state!, `${sign} ${this.words(word)}${rank.problem === '' ? '' : ` ${rank.problem}`}`);
    setAttribute(state!, 'class', `ddl-rank-state ddl-state-${rank.standing}`);
    setText(rate!, rank.samplesPerS === null ? '' : rateText(rank.samplesPerS));
    const usage = useOf(rank);
    // The device's name is long, and in the title.
    setText(place!, `${usage === '' ? rank.device : rank.device.replace(/ \(.*\)$/, '')} · ${rank.host}`);
    setText(use!, usage);
    const trouble = rank.problem === '' ? '' : `, ${word} ${rank.problem}`;
    setAttribute(row, 'title', `rank ${rank.rank}${trouble}: ${rank.host}, ${rank.device}, ${rank.threads} threads, pid ${rank.pid}`);
    setAttribute(row, 'aria-setsize', String(this.ranks.length));
    setAttribute(row, 'aria-posinset', String(at + 1));
  }
}

export function looksOf(standing: Standing): StateLook {
  return standing === 'ready' || standing === 'silent' || standing === 'ended' ? MORE_LOOKS[standing] : LOOKS[standing];
}

function makeRow(): HTMLElement {
  const [state, rate, place, use] = CELLS.map((name) => h('span', { class: `ddl-rank-${name}` }));
  const line = (left: HTMLElement, right: HTMLElement): HTMLElement => h('div', { class: 'ddl-rank-line' }, left, right);
  const name = h('span', { class: 'ddl-rank-name' });
  return h('div', { class: 'ddl-rank-row', role: 'listitem' }, name, line(state!, rate!), line(place!, use!));
}

function useOf(rank: RankRow): string {
  const use = rank.gpuPct ?? rank.cpuPct;
  if (use === null) {
    return '';
  }
  const memory =
    rank.memoryTotalBytes === null || rank.memoryBytes === null
      ? gibibytes(rank.memoryBytes)
      : `${whole(rank.memoryBytes / 2 ** 30)}/${whole(rank.memoryTotalBytes / 2 ** 30)} GiB`;
  return `${percent(use / 100)} · ${memory}`;
}
