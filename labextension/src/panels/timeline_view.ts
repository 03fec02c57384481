// Where the time of a run's steps went: figures, some steps over ranks, who was last, and the longest tensors.
import type { TranslationBundle } from '@jupyterlab/translation';
import { h, setHidden, setText } from '../components/dom';
import { milliseconds, NOTHING, percent, size, whole } from '../components/format';
import { TimelinePicture } from '../components/timeline_picture';
import { type Figure, type Timeline, worstStep } from '../model/timeline';
import type { Server } from '../model/server';
import { TimelineModel } from '../model/timeline_model';
import { ranksText } from '../model/words';

const NAME_LENGTH = 60;

export class TimelineView {
  readonly element: HTMLElement;
  private readonly status: HTMLElement;
  private readonly result: HTMLElement;
  private readonly findings = h('ul');
  private readonly tables = h('div');
  private readonly picture: TimelinePicture;
  private readonly first: HTMLInputElement;
  private readonly worst = h('button', { class: 'ddl-button' });
  private readonly resized: ResizeObserver;
  private readonly model: TimelineModel;

  constructor(
    private readonly trans: TranslationBundle,
    server: Pick<Server, 'timeline' | 'fileUrl'>,
    run: string,
  ) {
    const model = (this.model = new TimelineModel(server, run));
    this.status = h('p', { class: 'ddl-hint', role: 'status' }, trans.__('Reading the timeline…'));
    this.picture = new TimelinePicture(trans);
    this.first = h('input', { type: 'number', min: '1', value: '1', style: 'width:8ch' });
    this.first.addEventListener('change', () => this.read(Number(this.first.value) - 1));
    const back = this.button('◀', trans.__('Earlier steps'), () => this.turn(-1));
    const forth = this.button('▶', trans.__('Later steps'), () => this.turn(1));
    const links = [link(trans.__('JSON'), model.jsonUrl), link(trans.__('For Perfetto'), model.perfettoUrl)];
    const bar = h('div', { class: 'ddl-page-bar' }, h('label', {}, `${trans.__('from step')} `, this.first), back, forth, this.worst, ...links);
    this.worst.addEventListener('click', () => this.read(Number(this.worst.dataset['step'])));
    this.result = h('div', { hidden: '' }, this.findings, bar, this.picture.element, this.tables);
    this.element = h('section', { role: 'tabpanel', 'aria-label': trans.__('Timeline') }, this.status, this.result);
    model.changed.connect(this.draw, this);
    this.resized = new ResizeObserver(() => this.picture.themed());
    this.resized.observe(this.result);
    void model.read();
  }

  /** Another theme was chosen. */
  themed(): void {
    this.picture.themed();
  }

  dispose(): void {
    this.resized.disconnect();
    this.model.changed.disconnect(this.draw, this);
  }

  private button(text: string, label: string, act: () => void): HTMLElement {
    const made = h('button', { class: 'ddl-button', 'aria-label': label, title: label }, text);
    made.addEventListener('click', act);
    return made;
  }

  private turn(by: number): void {
    const { picture } = this.model.timeline!;
    this.read(Number(this.first.value) - 1 + by * Math.max(1, picture.length));
  }

  private read(first: number): void {
    const last = (this.model.timeline?.steps ?? 1) - 1;
    const from = Math.max(0, Math.min(Math.round(first) || 0, last));
    this.first.value = String(from + 1);
    void this.model.read(from);
  }

  private draw(): void {
    const { trans, model } = this;
    const { timeline, problem } = model;
    setHidden(this.result, timeline === null || timeline.steps === 0);
    if (timeline === null || problem !== '') {
      return setText(this.status, problem);
    }
    const steps = trans._n('%2 step', '%2 steps', timeline.steps, whole(timeline.steps));
    const ranks = timeline.ranks === null ? [] : [ranksText(timeline.ranks, trans)];
    setText(this.status, [steps, ...ranks, ...(timeline.cut_off ? [trans.__('cut off')] : [])].join(' · '));
    this.findings.replaceChildren(...timeline.findings.map((text) => h('li', {}, text)));
    const worst = worstStep(timeline);
    setHidden(this.worst, worst === null);
    setText(this.worst, trans.__('Step %1, waited for longest', (worst ?? 0) + 1));
    this.worst.dataset['step'] = String(worst);
    this.first.max = String(timeline.steps);
    this.tables.replaceChildren(this.figures(timeline), this.ranks(timeline), this.tensors(timeline));
    this.picture.show(timeline.picture);
  }

  private figures({ figures }: Timeline): HTMLElement {
    const { trans } = this;
    const names: [Figure, string][] = [
      ['step_us', trans.__('a step')],
      ['exchange_us', trans.__('exchange')],
      ['exposed_us', trans.__('exposed exchange')],
      ['collective_us', trans.__('of it collective')],
      ['copies_us', trans.__('of it copies')],
      ['queue_us', trans.__('of it queue')],
      ['hidden_us', trans.__('hidden exchange')],
    ];
    const step = figures.step_us?.median;
    const rows = names.map(([name, text]) => {
      const us = figures[name]?.median;
      return [text, ms(us), percent(us === undefined || !step ? null : us / step)];
    });
    return table(trans.__('A step'), ['', trans.__('median'), trans.__('of a step')], rows);
  }

  private ranks({ by_rank: ranks, steps }: Timeline): HTMLElement {
    const { trans } = this;
    const last = (times: number | null): string => (times === null ? NOTHING : trans.__('%1 of %2 steps', whole(times), whole(steps)));
    const rows = Object.entries(ranks).map(([rank, one]) => [rank, ms(one.compute_us), ms(one.wait_us), last(one.last), ms(one.late_us)]);
    const head = [trans.__('rank'), trans.__('compute'), trans.__('waits'), trans.__('last in'), trans.__('late in all')];
    return table(trans.__('Which rank was last'), head, rows);
  }

  private tensors({ tensors }: Timeline): HTMLElement {
    const { trans } = this;
    const rows = tensors.filter((one) => one.exchange_us > 0).map((one) => [
      one.name.length > NAME_LENGTH ? `…${one.name.slice(1 - NAME_LENGTH)}` : one.name,
      size(one.bytes),
      whole(one.count),
      ms(one.exchange_us / one.count),
      ms(one.longest_us),
      percent(one.fused / one.count),
      ms(one.wait_us / one.count),
      one.bus_bytes_per_s === null ? NOTHING : `${size(one.bus_bytes_per_s)}/s`,
    ]);
    const head = [trans.__('tensor'), trans.__('bytes'), trans.__('times'), trans.__('mean'), trans.__('longest'), trans.__('fused'), trans.__('wait'), trans.__('bus')];
    return table(trans.__('Longest exchanges'), head, rows);
  }
}

function ms(us: number | undefined): string {
  return milliseconds(us === undefined ? null : us / 1e6);
}

function link(text: string, address: string): HTMLElement {
  const style = 'display:inline-flex;align-items:center;text-decoration:none';
  return h('a', { class: 'ddl-button', href: address, download: '', style }, text);
}

function table(name: string, head: readonly string[], rows: readonly (readonly string[])[]): HTMLElement {
  const heading = (text: string): HTMLElement => (text === '' ? h('td') : h('th', { scope: 'col' }, text));
  const lines = rows.map(([first, ...cells]) => h('tr', {}, h('th', { scope: 'row' }, first ?? ''), ...cells.map((text) => h('td', {}, text))));
  const made = h('table', { class: 'ddl-compare' }, h('thead', {}, h('tr', {}, ...head.map(heading))), h('tbody', {}, ...lines));
  return h('section', { class: 'ddl-compare-part', 'aria-label': name }, h('h3', {}, name), made);
}
