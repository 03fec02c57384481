// Any number of runs over each other: their curves, what differs between them, and the code of two of them.
import { CurveChart, type Drawn } from '../components/curve_chart';
import { fillDifferences } from '../components/difference_table';
import { h, setHidden, setText } from '../components/dom';
import { pngOf, save, saveText } from '../components/download';
import { number } from '../components/format';
import { looksOf, sample } from '../components/run_looks';
import { whenText } from '../components/run_rows';
import { type Palette, readPalette } from '../components/theme';
import type { ComparisonModel } from '../model/comparison';
import { csvOf } from '../model/curve_csv';
import { type Picture, svgOf } from '../model/curve_svg';
import { CurveView, type ViewSettings } from '../model/curve_view';
import { sameCount, sectionsOf } from '../model/differences';
import { chartsOf, extentOf, type MetricChart } from '../model/metric_charts';
import { finalValue } from '../model/metric_curves';
import { sentence } from '../model/server';
import { CommandIDs } from '../tokens';
import { CompareCode } from './compare_code';
import { curveTexts, differenceTexts, placeTexts } from './compare_texts';
import { CompareTools, type FileKind } from './compare_tools';
import type { Context } from './context';
import { LivePage } from './page';

export class ComparePage extends LivePage {
  readonly view: CurveView;
  private readonly tools: CompareTools;
  private readonly code: CompareCode;
  private readonly charts = new Map<string, CurveChart>();
  private readonly chartsBox = h('div', { class: 'ddl-charts' });
  private readonly table = h('table', { class: 'ddl-compare' });
  private readonly only = h('input', { type: 'checkbox' });
  private readonly same = h('span', { class: 'ddl-hint' });
  private readonly empty: HTMLElement;
  private readonly problem = h('p', { class: 'ddl-fault-box', role: 'alert' });
  private palette: Palette | null = null;
  private drawn: MetricChart[] = [];
  /** What the table shows. */
  private told = '';

  /** @param changed called when what comes back with the page has changed. */
  constructor(
    private readonly context: Context,
    private readonly model: ComparisonModel,
    settings: ViewSettings,
    changed: () => void,
  ) {
    super();
    this.addClass('ddl-compare-page');
    const { trans } = context;
    this.view = new CurveView(settings);
    this.tools = new CompareTools(trans, this.view, (kind) => void this.save(kind));
    this.code = new CompareCode(trans, model);
    this.only.checked = true;
    this.empty = h('p', { class: 'ddl-hint' }, trans.__('None of these runs has trained yet.'));
    const choice = h('div', { class: 'ddl-compare-tools' }, h('label', {}, this.only, trans.__('only differences')), this.same);
    const box = h('div', { class: 'ddl-table ddl-compare-box', role: 'group', 'aria-label': trans.__('What differs'), tabindex: '0' }, this.table);
    const part = h('section', { class: 'ddl-compare-part', 'aria-label': trans.__('What differs') }, h('h3', {}, trans.__('What differs')), choice, box);
    const bar = h('div', { class: 'ddl-page-bar' }, h('h2', {}, trans.__('%1 runs', model.runs.length)), this.tools.element);
    this.node.append(bar, this.problem, this.empty, this.chartsBox, part, this.code.element);
    this.only.addEventListener('change', () => this.fillTable());
    this.view.changed.connect(() => {
      this.tools.update();
      this.update();
      changed();
    });
    this.view.moved.connect(() => this.charts.forEach((chart) => chart.moved()));
    model.changed.connect(() => this.update());
    void model.read();
  }

  get runs(): readonly string[] {
    return this.model.runs;
  }

  override dispose(): void {
    if (!this.isDisposed) {
      super.dispose();
      this.charts.forEach((chart) => chart.destroy());
    }
  }

  protected override themed(): void {
    this.palette = null;
    this.update();
  }

  protected override onResize(): void {
    this.charts.forEach((chart) => chart.resize());
  }

  protected override onUpdateRequest(): void {
    setText(this.problem, this.model.problem);
    if (!this.isVisible || this.node.clientWidth === 0) {
      return;
    }
    this.palette ??= readPalette(this.node);
    this.drawCharts(this.palette);
    this.fillTable();
    this.code.update();
  }

  protected override watch(): void {
    this.model.watch();
  }

  protected override rest(): void {
    this.model.rest();
  }

  private drawCharts(palette: Palette): void {
    const { view, model } = this;
    this.drawn = chartsOf(model.lives.map((live) => live.model), view.settings);
    view.extent = extentOf(this.drawn);
    setHidden(this.empty, this.drawn.length > 0 || model.lives.some((live) => live.feed.next === 0));
    const looks = looksOf(palette, model.runs.length);
    for (const [metric, chart] of this.charts) {
      if (!this.drawn.some((one) => one.metric === metric)) {
        chart.destroy();
        chart.element.remove();
        this.charts.delete(metric);
      }
    }
    // In the order of the metrics, which may become known one by one. All are there before one is drawn: they share the width.
    const order = this.drawn.map(({ metric }) => this.chartOf(metric).element);
    if (order.some((element, at) => this.chartsBox.children[at] !== element)) {
      this.chartsBox.append(...order);
    }
    for (const chart of this.drawn) {
      const drawn: Drawn = { chart, names: model.names, looks, palette };
      this.chartOf(chart.metric).resize();
      this.chartOf(chart.metric).update(drawn);
    }
  }

  private chartOf(metric: string): CurveChart {
    let chart = this.charts.get(metric);
    if (chart === undefined) {
      chart = new CurveChart(this.view, () => curveTexts(this.context.trans, this.view.settings.x));
      this.charts.set(metric, chart);
    }
    return chart;
  }

  private fillTable(): void {
    const { trans } = this.context;
    const { details, names, runs, lives } = this.model;
    if (details.every((one) => one === null) || this.palette === null) {
      return;
    }
    const figures = details.map((one, at): Record<string, number | null> => {
      const model = lives[at]?.model;
      const metrics = this.drawn.filter(({ metric }) => metric !== 'samples/s').flatMap(({ metric }) => [metric, `val_${metric}`]);
      const last = model === undefined ? [] : metrics.map((name) => [name, finalValue(model, name)] as const);
      const { samples_per_s, loss, seconds } = one?.record ?? { samples_per_s: null, loss: null, seconds: null };
      return { 'samples/s': samples_per_s, loss, ...Object.fromEntries(last.filter(([, value]) => value !== null)), seconds };
    });
    const sections = sectionsOf(details, figures);
    const told = JSON.stringify([sections, names, this.only.checked, this.palette.isDark]);
    if (told === this.told) {
      return;
    }
    this.told = told;
    const looks = looksOf(this.palette, runs.length);
    const heads = runs.map((run, at) => {
      const when = details[at] == null ? '' : whenText(details[at].record.start_s);
      const open = h('button', { class: 'ddl-compare-run', title: run }, sample(looks[at]!, 'training'), names[at]!, h('span', { class: 'ddl-hint' }, when));
      open.addEventListener('click', () => this.context.act(CommandIDs.openRun, { run }));
      return open;
    });
    fillDifferences(this.table, heads, sections, this.only.checked, differenceTexts(trans));
    const count = sameCount(sections);
    setText(this.same, this.only.checked && count > 0 ? trans._n('%1 row is the same in all', '%1 rows are the same in all', count) : '');
  }

  private async save(kind: FileKind): Promise<void> {
    const { lives, names } = this.model;
    const name = `runs.${kind.toLowerCase()}`;
    if (kind === 'CSV') {
      saveText(name, 'text/csv', csvOf(lives.map(({ model }, at) => ({ name: names[at]!, model }))));
      return;
    }
    const picture = this.picture();
    if (picture === null) {
      return;
    }
    if (kind === 'SVG') {
      saveText(name, 'image/svg+xml', picture.svg);
      return;
    }
    try {
      save(name, await pngOf(picture, this.context.trans));
    } catch (error) {
      setText(this.problem, sentence(error));
    }
  }

  /** Return the charts as they are shown; null where there are none. */
  private picture(): Picture | null {
    const { trans } = this.context;
    const { palette, view, drawn, model } = this;
    if (palette === null || view.shown === null || drawn.length === 0) {
      return null;
    }
    const { x, isLog, smoothing } = view.settings;
    return svgOf({
      charts: drawn,
      names: model.names,
      looks: looksOf(palette, model.runs.length),
      range: view.shown,
      isLog,
      isSmoothed: smoothing > 0,
      axis: placeTexts(trans)[x],
      training: trans.__('training'),
      validation: trans.__('validation'),
      colours: palette,
      place: curveTexts(trans, x).place,
      value: number,
    });
  }
}
