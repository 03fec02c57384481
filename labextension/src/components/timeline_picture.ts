// Steps over ranks: when each computed and waited, and when they exchanged. The wheel, + and - zoom, a drag and arrows move.
import { shifted, type Span, type TimelineStep, whole, zoomed } from '../model/timeline';
import { h, setText } from './dom';
import { milliseconds } from './format';
import { keepTyping } from './keys';
import { type Palette, readPalette } from './theme';
import type { Words } from '../model/words';

const LEFT = 44;
const TOP = 18;
const [MOST_HEIGHT, ROW] = [420, 22];
/** How much one turn of the wheel, or one key, zooms. */
const ZOOM = 1.25;
const STEP_OF_ARROW = 0.1;
/** A step's number needs so much room. */
const LEAST_FOR_NUMBER = 26;

type Part = 'compute' | 'wait' | 'exchange' | 'input' | 'faint';

export class TimelinePicture {
  readonly element: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly reading = h('p', { class: 'ddl-hint', role: 'status' });
  private steps: readonly TimelineStep[] = [];
  private ranks: readonly number[] = [];
  private shown: Span = [0, 1];
  private palette: Palette | null = null;
  private draggedFrom: number | null = null;

  constructor(private readonly trans: Words) {
    const keys = trans.__('The wheel, + and - zoom, a drag and arrows move, Escape shows all.');
    this.canvas = h('canvas', { tabindex: '0', role: 'img', 'aria-label': `${trans.__('Steps over ranks')}. ${keys}`, style: 'display:block;width:100%;touch-action:pan-y' });
    const legend = h('p', { class: 'ddl-hint' }, ...this.legend(), h('br'), keys);
    this.element = h('div', {}, this.canvas, this.reading, legend);
    keepTyping(this.canvas);
    this.canvas.addEventListener('wheel', (event) => this.onWheel(event), { passive: false });
    this.canvas.addEventListener('keydown', (event) => this.onKey(event));
    this.canvas.addEventListener('pointerdown', (event) => {
      this.draggedFrom = this.momentAt(event);
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener('pointerup', () => (this.draggedFrom = null));
    this.canvas.addEventListener('pointermove', (event) => this.onMove(event));
  }

  show(steps: readonly TimelineStep[]): void {
    this.steps = steps;
    this.ranks = [...new Set(steps.flatMap((step) => step.handed_us.map(([rank]) => rank)))].sort((a, b) => a - b);
    this.shown = whole(steps);
    this.themed();
    this.tell(this.shown[0]);
  }

  /** Draw again: the width or the theme changed. */
  themed(): void {
    this.palette = readPalette(this.element);
    this.draw();
  }

  private legend(): HTMLElement[] {
    const { trans } = this;
    const names: [Part, string][] = [
      ['compute', trans.__('compute')],
      ['wait', trans.__('waits for the slowest rank')],
      ['exchange', trans.__('collective')],
      ['input', trans.__('copies')],
      ['faint', trans.__('queue')],
    ];
    return names.map(([part, name]) => {
      const colour = `background:var(--ddl-${part === 'wait' ? 'grid' : part})`;
      const box = h('span', { style: `display:inline-block;width:12px;height:10px;margin-right:4px;${colour}` });
      return h('span', { style: 'margin-right:12px' }, box, name);
    });
  }

  private get perUs(): number {
    return (this.canvas.clientWidth - LEFT) / (this.shown[1] - this.shown[0]);
  }

  private momentAt({ clientX }: MouseEvent): number {
    const x = clientX - this.canvas.getBoundingClientRect().left - LEFT;
    return this.shown[0] + x / this.perUs;
  }

  private zoom(factor: number, at: number): void {
    this.look(zoomed(this.shown, factor, at, whole(this.steps)));
  }

  private move(byUs: number): void {
    this.look(shifted(this.shown, byUs, whole(this.steps)));
  }

  private look(part: Span): void {
    this.shown = part;
    this.draw();
  }

  private onWheel(event: WheelEvent): void {
    const [begin, end] = this.shown;
    const all = whole(this.steps);
    const isAll = end - begin >= all[1] - all[0];
    // Where nothing is left to zoom out of, the page scrolls.
    if (event.ctrlKey || (isAll && event.deltaY > 0) || event.deltaY === 0) {
      return;
    }
    event.preventDefault();
    this.zoom(event.deltaY > 0 ? ZOOM : 1 / ZOOM, this.momentAt(event));
  }

  private onMove(event: PointerEvent): void {
    const at = this.momentAt(event);
    if (this.draggedFrom === null) {
      this.tell(at);
    } else {
      this.move(this.draggedFrom - at);
    }
  }

  private onKey(event: KeyboardEvent): void {
    const [begin, end] = this.shown;
    const middle = (begin + end) / 2;
    const by = (end - begin) * STEP_OF_ARROW;
    const moves: Readonly<Record<string, () => void>> = {
      '+': () => this.zoom(1 / ZOOM, middle),
      '=': () => this.zoom(1 / ZOOM, middle),
      '-': () => this.zoom(ZOOM, middle),
      ArrowLeft: () => this.move(-by),
      ArrowRight: () => this.move(by),
      Escape: () => this.look(whole(this.steps)),
    };
    const move = moves[event.key];
    if (move !== undefined && !event.ctrlKey && !event.altKey && !event.metaKey) {
      event.preventDefault();
      move();
      this.tell((this.shown[0] + this.shown[1]) / 2);
    }
  }

  /** Say what is known of the step at a moment. */
  private tell(at: number): void {
    const step = this.steps.find((one) => at <= one.end_us) ?? this.steps.at(-1);
    if (step === undefined) {
      return setText(this.reading, this.trans.__('No step is drawn.'));
    }
    const { begin_us: begin, ready_us: ready, end_us: end, late } = step;
    const ms = (us: number): string => milliseconds(us / 1e6);
    const told = [
      this.trans.__('step %1: %2', step.number + 1, ms(end - begin)),
      this.trans.__('compute of the slowest rank %1', ms(ready - begin)),
      this.trans.__('exposed exchange %1', ms(end - ready)),
    ];
    const last = late === null ? [] : [this.trans.__('rank %1 last by %2, %3', late[0], ms(late[1]), late[2])];
    setText(this.reading, [...told, ...last].join(' · '));
  }

  private draw(): void {
    const { canvas, palette, ranks } = this;
    const context = canvas.getContext('2d');
    if (context === null || palette === null) {
      return;
    }
    const row = Math.max(1, Math.min(ROW, Math.floor(MOST_HEIGHT / Math.max(1, ranks.length))));
    const [width, height] = [canvas.clientWidth, TOP + row * ranks.length];
    const ratio = window.devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = '11px system-ui, sans-serif';
    context.textBaseline = 'middle';
    context.fillStyle = palette.text;
    const every = Math.ceil(ROW / row / 1.5);
    ranks.forEach((rank, at) => at % every === 0 && context.fillText(this.trans.__('rank %1', rank), 0, TOP + (at + 0.5) * row));
    context.beginPath();
    context.rect(LEFT, 0, width - LEFT, height);
    context.clip();
    for (const step of this.steps.filter((one) => one.end_us > this.shown[0] && one.begin_us < this.shown[1])) {
      this.drawStep(context, palette, step, row);
    }
  }

  private drawStep(context: CanvasRenderingContext2D, palette: Palette, step: TimelineStep, row: number): void {
    const x = (at: number): number => LEFT + (at - this.shown[0]) * this.perUs;
    const gap = row > 3 ? 1 : 0;
    const bar = (colour: string, top: number, from: number, to: number): void => {
      context.fillStyle = colour;
      context.fillRect(x(from), top, Math.max(0, x(to) - x(from)), row - gap);
    };
    const { begin_us: begin, ready_us: ready, end_us: end } = step;
    const tops = new Map(this.ranks.map((rank, at) => [rank, TOP + at * row]));
    for (const [rank, handed] of step.handed_us) {
      const top = tops.get(rank)!;
      bar(palette.compute, top, begin, handed);
      bar(palette.grid, top, handed, ready);
      bar(palette.faint, top, ready, end);
      step.copies.forEach((copy) => bar(palette.input, top, ...copy));
      step.exchanges.forEach((exchange) => bar(palette.exchange, top, ...exchange));
    }
    context.fillStyle = palette.text;
    context.fillRect(x(end) - 0.5, TOP - 4, 1, 4);
    if (x(end) - x(begin) > LEAST_FOR_NUMBER) {
      context.textAlign = 'center';
      context.fillText(String(step.number + 1), (x(begin) + x(end)) / 2, TOP / 2);
    }
  }
}
