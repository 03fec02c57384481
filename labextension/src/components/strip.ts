// Many ranks as a strip of cells: colour is the chosen figure, a sign says which are in trouble.
import type { Mean } from '../model/means';
import { splitOf } from '../model/means';
import type { Rank } from '../model/rank';
import type { RunModel } from '../model/run';
import { FAR } from '../model/series';
import type { Words } from '../model/words';
import { h, setAttribute, setText } from './dom';
import { LOOKS, number, percent } from './format';
import { type Palette, scaleColour } from './theme';

interface Measure {
  readonly name: string;
  readonly of: (rank: Rank, shown: Mean) => number | null;
  readonly format: (value: number) => string;
}

const measuresOf = (trans: Words): readonly Measure[] => [
  { name: trans.__('samples/s'), of: (_, shown) => shown.samples_per_s, format: number },
  { name: trans.__('exchange share of a step'), of: (_, shown) => shareOf(shown, 'exchange_s'), format: percent },
  { name: trans.__('input share of a step'), of: (_, shown) => shareOf(shown, 'input_s'), format: percent },
  { name: trans.__('GPU use'), of: (rank) => shareOfHundred(rank.latest?.gpu_pct), format: percent },
  { name: trans.__('CPU use'), of: (rank) => shareOfHundred(rank.latest?.cpu_pct), format: percent },
];
const IN_TROUBLE = new Set(['failed', 'lost', 'straggler']);

export class Strip {
  readonly element: HTMLElement;
  private readonly canvas = h('canvas', { class: 'ddl-strip', tabindex: '0', role: 'img' });
  private readonly select: HTMLSelectElement;
  private readonly range = h('span', { class: 'ddl-range' });
  private readonly reading = h('span', { class: 'ddl-strip-reading', role: 'status' });
  private measure: Measure;
  private ranks: Rank[] = [];
  // Kept, because reading it from the page forces a layout.
  private width = 0;
  private columns = 1;
  private size = 1;
  private height = 1;
  private chosen: number | null = null;
  private model: RunModel | null = null;
  private palette: Palette | null = null;

  /** @param choose called with a rank when it is clicked, or Enter is pressed on it. */
  constructor(
    private readonly trans: Words,
    choose: (rank: number) => void,
  ) {
    const measures = measuresOf(trans);
    this.measure = measures[0]!;
    this.select = h('select', { 'aria-label': trans.__('What the colours show') });
    for (const { name } of measures) {
      this.select.append(h('option', {}, name));
    }
    this.select.addEventListener('change', () => {
      this.measure = measures[this.select.selectedIndex] ?? measures[0]!;
      this.redraw();
    });
    const ramp = h('span', { class: 'ddl-ramp', 'aria-hidden': 'true' });
    ramp.style.background = `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map(scaleColour).join(',')})`;
    const bar = h('div', { class: 'ddl-strip-bar' }, this.select, ramp, this.range, this.reading);
    this.element = h('div', { class: 'ddl-strip-box' }, bar, this.canvas);
    this.canvas.addEventListener('pointermove', (event) => this.point(this.under(event)));
    this.canvas.addEventListener('pointerleave', () => this.point(null));
    this.canvas.addEventListener('click', (event) => {
      const rank = this.ranks[this.under(event) ?? -1];
      if (rank !== undefined) {
        choose(rank.rank);
      }
    });
    this.canvas.addEventListener('keydown', (event) => {
      const moves: Record<string, number> = {
        ArrowRight: 1,
        ArrowLeft: -1,
        ArrowDown: this.columns,
        ArrowUp: -this.columns,
        Home: -Infinity,
        End: Infinity,
      };
      const move = moves[event.key];
      if (move !== undefined) {
        event.preventDefault();
        event.stopPropagation();
        const from = this.chosen ?? -Math.sign(move);
        this.point(Math.min(this.ranks.length - 1, Math.max(0, from + move)));
      } else if (event.key === 'Enter' && this.chosen !== null) {
        event.stopPropagation();
        choose(this.ranks[this.chosen]!.rank);
      }
    });
  }

  update(model: RunModel, palette: Palette): void {
    this.model = model;
    this.palette = palette;
    this.redraw();
  }

  resize(): void {
    this.width = 0;
  }

  private redraw(): void {
    const { model, palette, trans } = this;
    const context = this.canvas.getContext('2d');
    if (model === null || palette === null || context === null) {
      return;
    }
    if (this.ranks.length !== model.ranks.length || this.ranks[0] !== model.ranks[0]) {
      this.ranks = [...model.ranks].sort((a, b) => a.rank - b.rank);
    }
    this.layOut(context);
    // A colour is for what is finite; words are for the rest.
    const values = this.ranks.map((rank) => this.measure.of(rank, model.means.of(rank)) ?? NaN).map((value) => (Math.abs(value) < FAR ? value : NaN));
    const there = values.filter((value) => !Number.isNaN(value));
    const least = there.length === 0 ? 0 : there.reduce((a, b) => Math.min(a, b));
    const greatest = there.length === 0 ? 0 : there.reduce((a, b) => Math.max(a, b));
    setText(this.range, there.length === 0 ? trans.__('not measured') : `${this.measure.format(least)} – ${this.measure.format(greatest)}`);
    // Ranks that are alike look alike: the colours span a tenth of the value at least.
    const middle = (least + greatest) / 2;
    const low = Math.min(least, middle * 0.95);
    const high = Math.max(greatest, middle * 1.05, low + 1e-9);
    const signs: number[] = [];
    for (const [at, rank] of this.ranks.entries()) {
      const value = values[at]!;
      const x = (at % this.columns) * this.size;
      const y = Math.floor(at / this.columns) * this.height;
      const isInTrouble = IN_TROUBLE.has(rank.state);
      context.fillStyle = isInTrouble
        ? palette.states[rank.state]!
        : Number.isNaN(value)
          ? palette.grid
          : scaleColour((value - low) / (high - low));
      context.fillRect(x + 0.5, y + 0.5, this.size - 1, this.height - 1);
      if (isInTrouble) {
        signs.push(at);
      }
    }
    context.fillStyle = palette.isDark ? '#000' : '#fff';
    context.font = `${Math.min(14, Math.floor(this.height * 0.7))}px system-ui, sans-serif`;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    for (const at of signs) {
      const x = ((at % this.columns) + 0.5) * this.size;
      const y = (Math.floor(at / this.columns) + 0.55) * this.height;
      context.fillText(LOOKS[this.ranks[at]!.state].sign, x, y);
    }
    if (this.chosen !== null) {
      const x = (this.chosen % this.columns) * this.size;
      const y = Math.floor(this.chosen / this.columns) * this.height;
      context.strokeStyle = palette.text;
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, this.size - 2, this.height - 2);
    }
    const trouble = signs.length === 0 ? trans.__('none in trouble') : trans.__('%1 in trouble', signs.length);
    const range = this.range.textContent ?? '';
    setAttribute(
      this.canvas,
      'aria-label',
      trans.__('%1 ranks by %2, %3, %4. Arrow keys name each, Enter shows its log.', this.ranks.length, this.measure.name, range, trouble),
    );
  }

  private layOut(context: CanvasRenderingContext2D): void {
    if (this.width === 0) {
      this.width = Math.max(200, this.element.clientWidth);
    }
    const { width } = this;
    const count = Math.max(1, this.ranks.length);
    // Rows of 32 or 64, which is how ranks are counted.
    this.columns = count <= 64 ? 32 : 64;
    this.size = width / this.columns;
    this.height = Math.min(this.size, 20);
    const height = Math.ceil(count / this.columns) * this.height;
    const ratio = window.devicePixelRatio || 1;
    const [w, h2] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== w || this.canvas.height !== h2) {
      this.canvas.width = w;
      this.canvas.height = h2;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
  }

  private under(event: MouseEvent): number | null {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.size);
    const row = Math.floor((event.clientY - box.top) / this.height);
    const at = row * this.columns + column;
    return column >= 0 && column < this.columns && at >= 0 && at < this.ranks.length ? at : null;
  }

  private point(at: number | null): void {
    if (at === this.chosen) {
      return;
    }
    this.chosen = at;
    const rank = at === null ? undefined : this.ranks[at];
    setText(this.reading, rank === undefined || this.model === null ? '' : describe(rank, this.model.means.of(rank), this.measure, this.trans));
    this.redraw();
  }
}

function describe(rank: Rank, shown: Mean, measure: Measure, trans: Words): string {
  const { word } = LOOKS[rank.state];
  const value = measure.of(rank, shown);
  const figure = value === null ? '' : `, ${measure.name} ${measure.format(value)}`;
  const name = rank.host === null ? trans.__('rank %1', rank.rank) : trans.__('rank %1 on %2', rank.rank, rank.host);
  return `${name}: ${trans.__(word)}${figure}${rank.problem === '' ? '' : ` (${rank.problem})`}`;
}

function shareOf(shown: Mean, part: 'exchange_s' | 'input_s'): number | null {
  const split = splitOf(shown);
  const step = split === null ? 0 : split.compute_s + split.exchange_s + split.input_s;
  return split === null || step === 0 ? null : split[part] / step;
}

function shareOfHundred(percents: number | null | undefined): number | null {
  return percents == null ? null : percents / 100;
}
