// The run at one glance: how it goes, how fast, how well it scales, what a step is spent on.
import { partName } from '../model/part_name';
import { type RankState, STATES } from '../model/rank';
import type { RunModel } from '../model/run';
import { progressText } from '../model/training_progress';
import type { Words } from '../model/words';
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
  private readonly counts = h('ul', { class: 'ddl-counts' });
  private readonly problem = h('p', { class: 'ddl-problem', role: 'alert' });
  private readonly stall: StallBox;
  private readonly rate: Tile;
  private readonly efficiency: Tile;
  private readonly loss: Tile;
  private readonly step: Tile;
  private readonly progress: Tile;
  private readonly bar = h('div', { class: 'ddl-split', role: 'img' });
  private readonly legend = h('ul', { class: 'ddl-legend' });
  private readonly tiles = h('dl', { class: 'ddl-tiles' });
  private readonly idle = h('p', { class: 'ddl-empty' });
  private shown = '';

  constructor(private readonly trans: Words) {
    setAttribute(this.counts, 'aria-label', trans.__('Ranks by state'));
    this.stall = new StallBox(trans);
    this.rate = new Tile(trans.__('samples/s'));
    this.efficiency = new Tile(trans.__('scaling efficiency'));
    this.loss = new Tile(trans.__('loss'));
    this.step = new Tile(trans.__('step'));
    this.progress = new Tile(trans.__('steps'));
    for (const [name] of PARTS) {
      this.bar.append(h('span', { class: `ddl-${name}` }));
      const swatch = h('span', { class: `ddl-swatch ddl-${name}`, 'aria-hidden': 'true' });
      this.legend.append(h('li', {}, swatch, partName(name, trans), h('span', { class: 'ddl-legend-value' })));
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
    const { trans } = this;
    this.updateState(model);
    this.stall.update(model.stall);
    const isTrained = model.hasTrained;
    setHidden(this.tiles, !isTrained);
    setHidden(this.idle, isTrained);
    setText(this.idle, model.isOver ? trans.__('This cell did not train.') : trans.__('No training steps yet.'));
    const { total, ranks } = model.means.rate();
    setAttribute(this.rate.element, 'title', model.isOver ? '' : trans.__('The mean of the last 10 s'));
    this.rate.set(ranks > 0 ? number(total) : NOTHING, rateNote(model, ranks, trans));
    const single = model.means.singleRankSamplesPerS;
    const against = single === null ? trans.__('no 1-rank figure is known') : trans.__('1 rank does %1', rate(single));
    this.efficiency.set(percent(model.means.efficiency()), against);
    this.loss.set(loss(model.means.loss()), trans.__('mean of the ranks'));
    this.progress.set(number(model.step), epochNote(model, trans));
    this.updateSplit(model);
  }

  private updateState(model: RunModel): void {
    const counts = model.counts();
    const shown = STATES.filter((state) => counts.has(state)).map((state) => `${state} ${counts.get(state)}`);
    if (this.shown !== shown.join()) {
      this.shown = shown.join();
      this.counts.replaceChildren(
        ...STATES.filter((state) => counts.has(state)).map((state) => chip(state, counts.get(state) ?? 0, this.trans)),
      );
    }
    const trains = (counts.get('training') ?? 0) + (counts.get('straggler') ?? 0) > 0;
    const { trans } = this;
    const state = model.outcome ?? (trains ? 'training' : 'running');
    const word = trans.__(state);
    setText(this.progressText, progressText(model.progress, trans));
    setText(this.state, model.seconds === null ? word : trans.__('%1 after %2', word, duration(model.seconds)));
    this.element.classList.toggle('ddl-bad', model.outcome !== null && model.outcome !== 'finished');
    setText(this.name, [model.model, model.run].filter((part) => part !== null).join(' · '));
    const failure = model.firstFailure;
    const lost = model.lost ?? (model.outcome === 'cut off' ? trans.__('The kernel ended during the run.') : '');
    const text = failure === null ? lost : trans.__('Rank %1 raised %2: %3', failure.rank, failure.name, failure.message);
    setText(this.problem, text.split('\n')[0]!.slice(0, 300));
    setHidden(this.problem, text === '');
  }

  private updateSplit(model: RunModel): void {
    const split = model.means.split();
    const step = split === null ? 0 : split.compute_s + split.exchange_s + split.input_s;
    this.step.set(milliseconds(model.means.step_s()), this.trans.__('mean of the ranks'));
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
      shares.push(`${partName(name, this.trans)} ${value}`);
    }
    setAttribute(this.bar, 'aria-label', this.trans.__('A step: %1', shares.join('; ')));
  }
}

/** Where no event says how many epochs there are to be, as in runs of before, the current one; else the head has it. */
function epochNote({ epoch, progress }: RunModel, trans: Words): string {
  return epoch === null || progress.epoch !== null ? '' : trans.__('epoch %1', epoch + 1);
}

/** What the figure is a mean of: ten seconds while the run is active, with the newest beside it. */
function rateNote(model: RunModel, ranks: number, trans: Words): string {
  const of = trans._n('on %2 rank', 'on %2 ranks', ranks, number(ranks));
  const now = model.means.rateNow();
  return model.isOver ? trans.__('mean of the run, %1', of) : now === null ? of : trans.__('now %1, %2', number(now), of);
}

function chip(state: RankState, count: number, trans: Words): HTMLElement {
  const { sign, word } = LOOKS[state];
  return h('li', { class: `ddl-chip ddl-state-${state}` }, h('span', { 'aria-hidden': 'true' }, sign), ` ${number(count)} ${trans.__(word)}`);
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
