// The ranks of a cluster in a narrow panel: two lines each; only those in sight are in the page.
import { byHost, headingParts, type HostEntry, type HostHeading, isHeading } from '../model/host_groups';
import { type RankRow, type Standing, TROUBLED } from '../model/rank_rows';
import type { Words } from '../model/words';
import { h, setAttribute, setText } from './dom';
import { memorySize, LOOKS, percent, rate as rateText, type StateLook, whole } from './format';
import { HostHeadings, placesOf } from './host_headings';
import { VirtualRows } from './virtual';

const ROW_HEIGHT = 40;
const MAX_ROWS = 8;
// The list's own, in its height: without it the rows need a scroll bar for a pixel.
const BORDER = 1;
const CELLS = ['state', 'rate', 'place', 'use'] as const;
const MORE_LOOKS: Readonly<Record<'ready' | 'silent' | 'held' | 'ended', StateLook>> = {
  ready: { sign: '○', word: 'ready' },
  silent: { sign: '…', word: 'silent' },
  held: { sign: '‖', word: 'in the debugger' },
  ended: { sign: '◇', word: 'ended with it' },
};

export class RankList {
  readonly element: HTMLElement;
  private readonly space = h('div', { class: 'ddl-space', role: 'presentation' });
  private readonly rows: VirtualRows;
  private readonly headings: HostHeadings;
  private ranks: readonly RankRow[] = [];
  /** The ranks as they are listed, by host where there are several. */
  private entries: readonly HostEntry<RankRow>[] = [];

  /**
   * @param choose is called where a menu of a rank's row is asked for; it returns whether there is one.
   */
  constructor(
    label: string,
    private readonly trans: Words,
    choose: (rank: number, at: MouseEvent) => boolean,
  ) {
    this.element = h('div', { class: 'ddl-rank-list', role: 'list', 'aria-label': label, tabindex: '0' }, this.space);
    this.headings = new HostHeadings(this.element, () => placesOf(this.entries), () => this.update(this.ranks));
    this.rows = new VirtualRows(this.element, this.space, ROW_HEIGHT, makeRow, (row, at) => this.fill(row, at));
    this.headings.drawnBy(this.rows);
    this.space.addEventListener('contextmenu', (event) => {
      const row = event.target instanceof Element ? event.target.closest('.ddl-rank-row') : null;
      const rank = this.entries[Number(row?.getAttribute('aria-posinset') ?? NaN) - 1];
      // With Shift the browser's own menu comes, as everywhere in JupyterLab.
      if (rank !== undefined && !isHeading(rank) && !event.shiftKey && choose(rank.rank, event)) {
        event.preventDefault();
        event.stopPropagation();
      }
    });
  }

  update(ranks: readonly RankRow[]): void {
    this.ranks = ranks;
    this.entries = byHost(ranks, this.headings.folded);
    const height = `${Math.min(MAX_ROWS, this.entries.length) * ROW_HEIGHT + BORDER}px`;
    if (this.element.style.height !== height) {
      this.element.style.height = height;
      this.rows.resize();
    }
    this.rows.update(this.entries.length);
  }

  resize(): void {
    this.rows.resize();
  }

  private fill(row: HTMLElement, at: number): void {
    const rank = this.entries[at];
    if (rank === undefined) {
      return;
    }
    setAttribute(row, 'aria-setsize', String(this.entries.length));
    setAttribute(row, 'aria-posinset', String(at + 1));
    if (isHeading(rank)) {
      this.headings.fill(row, { ...headingOf(rank, this.trans), host: rank.host, isFolded: rank.isFolded });
      row.removeAttribute('title');
      return;
    }
    this.headings.fill(row, null);
    const { trans } = this;
    const { sign, word: text } = looksOf(rank.standing);
    const word = trans.__(text);
    const [state, rate, place, use] = CELLS.map((cell) => row.querySelector<HTMLElement>(`.ddl-rank-${cell}`));
    setText(row.firstElementChild as HTMLElement, String(rank.rank));
    setText(state!, `${sign} ${word}${rank.problem === '' ? '' : ` ${rank.problem}`}`);
    setAttribute(state!, 'class', `ddl-rank-state ddl-state-${rank.standing}`);
    setText(rate!, rank.samplesPerS === null ? '' : rateText(rank.samplesPerS));
    const usage = useOf(rank);
    // The device's name is long, and in the title.
    const device = usage === '' ? rank.device : rank.device.replace(/ \(.*\)$/, '');
    // Under the heading of its host, the host is said already.
    setText(place!, isHeading(this.entries[0]!) ? device : `${device} · ${rank.host}`);
    setText(use!, usage);
    const trouble = rank.problem === '' ? '' : `, ${word} ${rank.problem}, ${rank.slowIn}`;
    const more = [rank.deviceMore, rank.network].filter((text) => text !== '').map((text) => `\n${text}`);
    const whole = trans.__('%1 threads, pid %2', rank.threads, rank.pid);
    setAttribute(row, 'title', `${trans.__('rank %1', rank.rank)}${trouble}: ${rank.host}, ${rank.device}, ${whole}${more.join('')}`);
  }
}

export function looksOf(standing: Standing): StateLook {
  return standing === 'ready' || standing === 'silent' || standing === 'held' || standing === 'ended' ? MORE_LOOKS[standing] : LOOKS[standing];
}

function makeRow(): HTMLElement {
  const [state, rate, place, use] = CELLS.map((name) => h('span', { class: `ddl-rank-${name}` }));
  const line = (left: HTMLElement, right: HTMLElement): HTMLElement => h('div', { class: 'ddl-rank-line' }, left, right);
  const name = h('span', { class: 'ddl-rank-name' });
  return h('div', { class: 'ddl-rank-row', role: 'listitem' }, name, line(state!, rate!), line(place!, use!), HostHeadings.button());
}

function headingOf({ ranks }: HostHeading<RankRow>, trans: Words): { text: string; hasFault: boolean } {
  const rates = ranks.map(({ samplesPerS }) => samplesPerS).filter((one) => one !== null);
  const together = rates.length === 0 ? '' : rateText(rates.reduce((sum, one) => sum + one, 0));
  const faults = ranks.filter(({ standing }) => TROUBLED.has(standing)).length;
  const network = ranks.find((rank) => rank.network !== '')?.network ?? '';
  return { text: headingParts(ranks.length, together, network, faults, trans).join(' · '), hasFault: faults > 0 };
}

function useOf(rank: RankRow): string {
  const use = rank.gpuPct ?? rank.cpuPct;
  if (use === null) {
    return '';
  }
  const memory =
    rank.memoryTotalBytes === null || rank.memoryBytes === null
      ? memorySize(rank.memoryBytes)
      : `${whole(rank.memoryBytes / 2 ** 30)}/${whole(rank.memoryTotalBytes / 2 ** 30)} GiB`;
  return `${percent(use / 100)} · ${memory}`;
}
