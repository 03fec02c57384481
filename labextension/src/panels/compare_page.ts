// Two runs over each other: how fast they trained, and what their losses did.
import { Chart, type ChartData } from '../components/chart';
import { h, setText } from '../components/dom';
import { clock, compact, duration, loss, NOTHING, number } from '../components/format';
import { whenText } from '../components/run_rows';
import { type Palette, readPalette } from '../components/theme';
import { change, type Curve, onOneAxis } from '../model/compare';
import type { ComparisonModel } from '../model/comparison';
import type { RunModel } from '../model/run';
import type { RunRecord } from '../model/runs';
import { compactRanks } from '../model/stacks';
import type { Context } from './context';
import { LivePage } from './page';

export class ComparePage extends LivePage {
  private readonly charts = [new Chart(), new Chart()] as const;
  private readonly table = h('table', { class: 'ddl-compare' });
  private readonly problem = h('p', { class: 'ddl-fault-box', role: 'alert' });
  private palette: Palette | null = null;
  /** The records that the table shows. */
  private shown: readonly RunRecord[] | null = null;

  constructor(
    private readonly context: Context,
    private readonly model: ComparisonModel,
  ) {
    super();
    const charts = h('div', { class: 'ddl-charts' }, ...this.charts.map(({ element }) => element));
    const bar = h('div', { class: 'ddl-page-bar' }, h('h2', {}, context.trans.__('Two runs')));
    this.node.append(bar, this.problem, h('div', { class: 'ddl-table' }, this.table), charts);
    model.changed.connect(() => this.update());
    void model.read();
  }

  get first(): string {
    return this.model.first;
  }

  get second(): string {
    return this.model.second;
  }

  override dispose(): void {
    if (!this.isDisposed) {
      super.dispose();
      for (const chart of this.charts) {
        chart.destroy();
      }
    }
  }

  protected override themed(): void {
    this.palette = null;
    this.update();
  }

  protected override onResize(): void {
    for (const chart of this.charts) {
      chart.resize();
    }
  }

  protected override onUpdateRequest(): void {
    const { records, problem, lives } = this.model;
    setText(this.problem, problem);
    if (records !== null && this.shown !== records) {
      this.shown = records;
      this.table.replaceChildren(...this.rowsOf(...records));
    }
    if (lives === null || !this.isVisible || this.node.clientWidth === 0) {
      return;
    }
    this.palette ??= readPalette(this.node);
    const [first, second] = [lives[0].model, lives[1].model];
    const { trans } = this.context;
    const rates = this.chart(trans.__('Samples/s of all ranks over time'), rateCurve(first), rateCurve(second), this.palette);
    this.charts[0].update({ ...rates, place: clock, empty: trans.__('No training steps.') }, this.palette);
    const losses = this.chart(trans.__('Loss over steps'), lossCurve(first), lossCurve(second), this.palette);
    this.charts[1].update({ ...losses, fromZero: false, empty: trans.__('No loss.') }, this.palette);
  }

  private chart(title: string, first: Shown, second: Shown, palette: Palette): ChartData {
    const joined = onOneAxis(first, second);
    return {
      title,
      places: joined.places,
      lines: [
        { label: shortOf(this.first), values: joined.first, colour: palette.lines[0]!, width: 2, summary: first.summary },
        { label: shortOf(this.second), values: joined.second, colour: palette.lines[1]!, width: 2, dash: [6, 3], summary: second.summary },
      ],
      empty: '',
      place: compact,
      value: number,
      axis: compact,
    };
  }

  protected override watch(): void {
    this.model.watch();
  }

  protected override rest(): void {
    this.model.rest();
  }

  private rowsOf(first: RunRecord, second: RunRecord): HTMLElement[] {
    const { trans } = this.context;
    const row = (name: string, of: (record: RunRecord) => string, figure?: (record: RunRecord) => number | null): HTMLElement => {
      const more = figure === undefined ? null : change(figure(first), figure(second));
      const percent = more === null ? '' : `${more >= 0 ? '+' : '−'}${(100 * Math.abs(more)).toFixed(1)}%`;
      const cells = [of(first), of(second), percent].map((text) => h('td', {}, text));
      return h('tr', {}, h('th', { scope: 'row' }, name), ...cells);
    };
    const names = [first, second].map(({ run }) => h('th', { scope: 'col' }, run));
    const corner = h('td');
    return [
      h('tr', {}, corner, ...names, h('th', { scope: 'col' }, trans.__('change'))),
      row(trans.__('began'), ({ start_s }) => whenText(start_s)),
      row(trans.__('state'), ({ state }) => trans.__(state)),
      row(trans.__('ranks'), ({ ranks, world_size }) => trans.__('%1 of %2', compactRanks(ranks), world_size)),
      row(trans.__('model'), ({ model }) => model ?? NOTHING),
      row(trans.__('computes on'), ({ computes_on }) => computes_on ?? NOTHING),
      row('samples/s', ({ samples_per_s }) => number(samples_per_s), ({ samples_per_s }) => samples_per_s),
      row(trans.__('last loss'), (record) => loss(record.loss), (record) => record.loss),
      row(trans.__('took'), ({ seconds }) => (seconds === null ? NOTHING : duration(seconds)), ({ seconds }) => seconds),
    ];
  }
}

/** A curve, and its legend's figure: the run's, as in the table. */
interface Shown extends Curve {
  readonly summary: number | null;
}

function rateCurve(model: RunModel): Shown {
  const places = model.curves.time.places();
  const { rates, settled } = model.ratesOverTime();
  const { total: rate, ranks } = model.means.rate();
  const shown = Math.min(settled, places.length);
  return { places: places.subarray(0, shown), values: rates.total.slice(0, shown), summary: ranks > 0 ? rate : null };
}

function lossCurve(model: RunModel): Shown {
  return { places: model.curves.steps.places(), values: model.curves.metrics.get('loss')?.means() ?? [], summary: model.means.loss() };
}

/** Return what distinguishes a run's id: its end. */
function shortOf(run: string): string {
  return run.length > 24 ? `…${run.slice(-20)}` : run;
}
