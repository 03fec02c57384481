// The run at one glance: how it goes, how fast, how well it scales, what a step is spent on.
import { type RankState, STATES } from '../model/rank';
import type { RunModel } from '../model/run';
import { h, setAttribute, setHidden, setText } from './dom';
import { duration, LOOKS, loss, milliseconds, NOTHING, number, percent, rate } from './format';
import { StallBox } from './stall_box';

const PARTS = [
  ['compute', 'compute_s'],
  ['exchange', 'exchange_s'],
  ['input', 'input_s'],
] as const;

export class Header {
  readonly element: HTMLElement;
  private readonly state = h('span', { class: 'ddl-run-state' });
  private readonly progressText = h('span', { class: 'ddl-progress' });
  private readonly name = h('span', { class: 'ddl-run-name' });
  private readonly counts = h('ul', { class: 'ddl-counts', 'aria-label': 'Ranks by state' });
  private readonly problem = h('p', { class: 'ddl-problem', role: 'alert' });
  private readonly stall = new StallBox();
  private readonly rate = new Tile('samples/s');
  private readonly efficiency = new Tile('scaling efficiency');
  private readonly loss = new Tile('loss');
  private readonly step = new Tile('step');
  private readonly progress = new Tile('steps');
  private readonly bar = h('div', { class: 'ddl-split', role: 'img' });
  private readonly legend = h('ul', { class: 'ddl-legend' });
  private readonly tiles = h('dl', { class: 'ddl-tiles' });
  private readonly idle = h('p', { class: 'ddl-empty' });
  private shown = '';

  constructor() {
    for (const [name] of PARTS) {
      this.bar.append(h('span', { class: `ddl-${name}` }));
      const swatch = h('span', { class: `ddl-swatch ddl-${name}`, 'aria-hidden': 'true' });
      this.legend.append(h('li', {}, swatch, name, h('span', { class: 'ddl-legend-value' })));
    }
    for (const { element } of [this.rate, this.efficiency, this.loss, this.progress, this.step]) {
      this.tiles.append(element);
    }
    // No header element: that would be the page's banner.
    this.element = h(
      'div',
      { class: 'ddl-header' },
      h('div', { class: 'ddl-title' }, this.state, this.progressText, this.counts, this.name),
      this.problem,
      this.stall.element,
      this.tiles,
      this.idle,
      this.bar,
      this.legend,
    );
  }

  update(model: RunModel): void {
    this.updateState(model);
    this.stall.update(model.stall);
    const isTrained = model.hasTrained;
    setHidden(this.tiles, !isTrained);
    setHidden(this.idle, isTrained);
    setText(this.idle, model.isOver ? 'This cell did not train.' : 'No training steps yet.');
    const { total, ranks } = model.means.rate();
    setAttribute(this.rate.element, 'title', model.isOver ? '' : 'The mean of the last 10 s');
    this.rate.set(ranks > 0 ? number(total) : NOTHING, rateNote(model, ranks));
    const single = model.means.singleRankSamplesPerS;
    const against = single === null ? 'no 1-rank figure is known' : `1 rank does ${rate(single)}`;
    this.efficiency.set(percent(model.means.efficiency()), against);
    this.loss.set(loss(model.means.loss()), 'mean of the ranks');
    this.progress.set(number(model.step), epochNote(model));
    this.updateSplit(model);
  }

  private updateState(model: RunModel): void {
    const counts = model.counts();
    const shown = STATES.filter((state) => counts.has(state)).map((state) => `${state} ${counts.get(state)}`);
    if (this.shown !== shown.join()) {
      this.shown = shown.join();
      this.counts.replaceChildren(
        ...STATES.filter((state) => counts.has(state)).map((state) => chip(state, counts.get(state) ?? 0)),
      );
    }
    const trains = (counts.get('training') ?? 0) + (counts.get('straggler') ?? 0) > 0;
    const time = model.seconds === null ? '' : ` after ${duration(model.seconds)}`;
    setText(this.progressText, model.progress.text);
    setText(this.state, `${model.outcome ?? (trains ? 'Training' : 'Running')}${time}`);
    this.element.classList.toggle('ddl-bad', model.outcome !== null && model.outcome !== 'finished');
    setText(this.name, [model.model, model.run].filter((part) => part !== null).join(' · '));
    const failure = model.firstFailure;
    const text =
      failure === null ? (model.lost ?? '') : `Rank ${failure.rank} raised ${failure.name}: ${failure.message}`;
    setText(this.problem, text.split('\n')[0]!.slice(0, 300));
    setHidden(this.problem, text === '');
  }

  private updateSplit(model: RunModel): void {
    const split = model.means.split();
    const step = split === null ? 0 : split.compute_s + split.exchange_s + split.input_s;
    this.step.set(milliseconds(model.means.step_s()), 'mean of the ranks');
    const isDrawn = Number.isFinite(step) && step > 0;
    setHidden(this.bar, !isDrawn);
    setHidden(this.legend, !isDrawn);
    const shares: string[] = [];
    for (const [at, [name, key]] of PARTS.entries()) {
      const share = split === null || !isDrawn ? 0 : split[key] / step;
      const part = this.bar.children[at] as HTMLElement;
      setAttribute(part, 'style', `width:${(share * 100).toFixed(1)}%`);
      const value = `${percent(share)}, ${milliseconds(split?.[key])}`;
      setText(this.legend.children[at]!.lastElementChild as HTMLElement, value);
      shares.push(`${name} ${value}`);
    }
    setAttribute(this.bar, 'aria-label', `A step: ${shares.join('; ')}`);
  }
}

/** Where no event says how many epochs there are to be, as in runs of before, the current one; else the head has it. */
function epochNote({ epoch, progress }: RunModel): string {
  return epoch === null || progress.epoch !== null ? '' : `epoch ${epoch + 1}`;
}

/** What the figure is a mean of: ten seconds while the run is active, with the newest beside it. */
function rateNote(model: RunModel, ranks: number): string {
  const of = ranks === 1 ? 'on 1 rank' : `on ${ranks} ranks`;
  const now = model.means.rateNow();
  return model.isOver ? `mean of the run, ${of}` : now === null ? of : `now ${number(now)}, ${of}`;
}

export function chip(state: RankState, count: number): HTMLElement {
  const { sign, word } = LOOKS[state];
  return h('li', { class: `ddl-chip ddl-state-${state}` }, h('span', { 'aria-hidden': 'true' }, sign), ` ${count} ${word}`);
}

class Tile {
  readonly element: HTMLElement;
  private readonly value = h('dd', { class: 'ddl-value' });
  private readonly note = h('dd', { class: 'ddl-note' });

  constructor(name: string) {
    this.element = h('div', { class: 'ddl-tile' }, h('dt', {}, name), this.value, this.note);
  }

  set(value: string, note: string): void {
    setText(this.value, value);
    setText(this.note, note);
  }
}
