// The sidebar's lower part: what ran, newest first, by days, with a search.
import { ellipsesIcon } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';
import { DayRows } from '../components/day_rows';
import { h, setAttribute, setHidden, setText } from '../components/dom';
import { ListKeys } from '../components/list_keys';
import { fillDayRow, fillRunRow, makeDayRow, makeRunRow } from '../components/run_rows';
import { followTheme } from '../components/theme';
import { compareIcon } from '../icons';
import { type ListRow, rowsOf } from '../model/run_days';
import type { RunValuesModel } from '../model/run_values';
import type { RunRecord } from '../model/runs';
import type { RunsModel } from '../model/runs_model';
import type { CurrentNotebook } from '../notebook/current';
import { CommandIDs } from '../tokens';
import type { Context } from './context';
import { isMeant } from './dialogs';
import { ExampleOffer } from './example_offer';
import { iconButton } from './icon_button';
import { type Choice, type Entry, showMenu } from './popup_menu';
import { Problem } from './problem';
import { RunSearch } from './run_search';
import { rowTexts } from './texts';

const ROW_HEIGHT = 42;
const DAY_HEIGHT = 26;

export class RunsSection extends Widget {
  private readonly search: RunSearch;
  private readonly compare: HTMLButtonElement;
  /** The menu of what ends the runs that are ticked. */
  private readonly more: HTMLButtonElement;
  private readonly status = h('p', { class: 'ddl-hint', role: 'status' });
  private readonly example: ExampleOffer;
  private readonly problem: Problem;
  private readonly space = h('div', { class: 'ddl-space', role: 'presentation' });
  private readonly body: HTMLElement;
  private readonly rows: DayRows<ListRow>;
  private readonly places = new Map<HTMLElement, RunRecord>();

  /** @param keep keeps what is searched for, for when the page is loaded again. */
  constructor(
    private readonly context: Context,
    private readonly model: RunsModel,
    values: RunValuesModel,
    private readonly notebook: CurrentNotebook,
    keep: (search: string) => void,
  ) {
    super();
    const { trans } = context;
    this.addClass('ddl-panel');
    this.addClass('ddl-runs-section');
    this.title.label = trans.__('Runs');
    this.search = new RunSearch(trans, model, values, keep);
    this.compare = iconButton(compareIcon, trans.__('Compare'), trans.__('Choose two runs or more'));
    this.more = iconButton(ellipsesIcon, trans.__('More'));
    this.more.setAttribute('aria-haspopup', 'menu');
    this.problem = new Problem(trans.__('Dismiss'));
    this.body = h('div', { class: 'ddl-run-list', role: 'group', 'aria-label': trans.__('Runs'), tabindex: '0' }, this.space);
    this.search.element.append(this.compare, this.more);
    this.example = new ExampleOffer(context);
    this.node.append(this.search.element, this.search.count, this.problem.element, this.status, this.example.element, this.body);
    this.rows = this.makeRows();
    new ListKeys(this.body, ROW_HEIGHT, {
      ids: () => model.runs.map(({ run }) => run),
      reveal: (run) => this.rows.reveal(run),
      idOf: (row) => this.places.get(row)?.run ?? null,
      reachedEnd: () => void model.readMore(),
    });
    this.compare.addEventListener('click', () => this.compareRuns([...model.chosen]));
    this.more.addEventListener('click', () => this.showMenuOfTicked());
    model.isAtEnd = () => this.rows.isAtEnd;
    model.changed.connect((_, added) => this.draw(added));
    notebook.changed.connect(() => this.offer());
    followTheme(this.node, () => undefined);
    this.enable();
  }

  /** Search for what was searched for when the page was there before. */
  restore(search: string): void {
    this.search.restore(search);
  }

  protected override onAfterShow(): void {
    this.model.watch();
  }

  protected override onAfterAttach(): void {
    if (this.isVisible) {
      this.model.watch();
    }
  }

  protected override onBeforeHide(): void {
    this.model.rest();
  }

  protected override onBeforeDetach(): void {
    this.model.rest();
  }

  protected override onResize(): void {
    this.rows.resize();
  }

  private makeRows(): DayRows<ListRow> {
    const texts = rowTexts(this.context.trans);
    const actions = {
      open: (row: HTMLElement) => this.open(row),
      choose: (row: HTMLElement, isChosen: boolean) => this.choose(row, isChosen),
      menu: (row: HTMLElement, x: number, y: number) => this.showMenu(row, x, y),
    };
    const run = {
      height: ROW_HEIGHT,
      make: () => makeRunRow(actions, texts),
      fill: (element: HTMLElement, row: ListRow) => {
        if (row.kind === 'run') {
          this.places.set(element, row.record);
          fillRunRow(element, row.record, this.model.chosen.has(row.id), texts);
        }
      },
    };
    const day = {
      height: DAY_HEIGHT,
      make: makeDayRow,
      fill: (element: HTMLElement, row: ListRow) => row.kind === 'day' && fillDayRow(element, row.start_s, texts),
    };
    return new DayRows<ListRow>(this.body, this.space, { run, day }, () => this.rows.isAtEnd && void this.model.readMore());
  }

  /** @param added how many runs came above those that were there: these stay in sight. */
  private draw(added: number): void {
    const { runs } = this.model;
    const status = this.statusText();
    setText(this.status, status);
    this.status.hidden = status === '';
    this.offer();
    this.rows.update(rowsOf(runs), added > 0);
    // A list must have items, and what has no role no label.
    setAttribute(this.body, 'role', runs.length > 0 ? 'list' : 'group');
    this.enable();
  }

  /** Where no notebook is open the form offers the example. */
  private offer(): void {
    const { isEmpty } = this;
    const sentence = isEmpty ? this.context.trans.__('No run yet. A cell that begins with %1 is one.', '%%distributed') : '';
    this.example.show(sentence, isEmpty && this.notebook.panel !== null);
  }

  private statusText(): string {
    const { trans } = this.context;
    const { status, problem, runs } = this.model;
    if (status === 'failed') {
      return problem;
    }
    if (status === 'stale') {
      return runs.length === 0 ? '' : trans.__('As they were when the Jupyter server answered last.');
    }
    return status === 'unread' || runs.length > 0 || this.isEmpty ? '' : trans.__('No run has that in it.');
  }

  /** Whether there is no run at all. */
  private get isEmpty(): boolean {
    const { status, runs, search } = this.model;
    return !['unread', 'failed', 'stale'].includes(status) && runs.length === 0 && search === '';
  }

  private open(row: HTMLElement): void {
    const record = this.places.get(row);
    if (record !== undefined) {
      this.context.act(CommandIDs.openRun, { run: record.run });
    }
  }

  private choose(row: HTMLElement, isChosen: boolean): void {
    const run = this.places.get(row)?.run;
    if (run !== undefined) {
      this.model.choose(run, isChosen);
    }
    this.enable();
  }

  private enable(): void {
    const { size } = this.model.chosen;
    setHidden(this.compare, !this.context.can(CommandIDs.compare));
    this.compare.disabled = size < 2;
    this.more.disabled = size === 0;
  }

  private showMenu(row: HTMLElement, x: number, y: number): void {
    const record = this.places.get(row);
    if (record === undefined) {
      return;
    }
    const { trans, can } = this.context;
    const { run } = record;
    const { activeElement } = document;
    const origin = activeElement instanceof HTMLElement && row.contains(activeElement) ? activeElement : row.querySelector('button')!;
    const asks = (label: string, command: string, isEnabled = true): Choice => ({
      label,
      isEnabled: isEnabled && can(command),
      act: () => void this.ask(command, run),
    });
    const ticked = [...this.model.chosen].filter((one) => one !== run);
    const compares = { label: trans.__('Compare with what is ticked'), isEnabled: ticked.length > 0 && can(CommandIDs.compare) };
    const entries: Entry[] = [
      asks(trans.__('Open'), CommandIDs.openRun),
      asks(trans.__('TensorBoard'), CommandIDs.tensorboard),
      asks(trans.__('Go to its cell'), CommandIDs.goToCell, record.notebook !== null),
      'separator',
      asks(trans.__('Rename…'), CommandIDs.renameRun),
      asks(trans.__('Note…'), CommandIDs.noteRun),
      asks(trans.__('Tags…'), CommandIDs.tagRun),
      'separator',
      { ...compares, act: () => this.compareRuns([run, ...ticked]) },
      asks(trans.__('Report…'), CommandIDs.reportRun),
      'separator',
      { label: trans.__('Delete…'), act: () => void this.removeRuns([run]) },
    ];
    showMenu(entries, x, y, origin);
  }

  private showMenuOfTicked(): void {
    const { left, bottom } = this.more.getBoundingClientRect();
    const removes = { label: this.context.trans.__('Delete…'), act: () => void this.removeRuns([...this.model.chosen]) };
    showMenu([removes], left, bottom, this.more);
  }

  private async ask(command: string, run: string): Promise<void> {
    this.problem.show('');
    this.problem.show(await this.context.ask(command, { run }));
  }

  private compareRuns(runs: readonly string[]): void {
    this.context.act(CommandIDs.compare, { runs: [...runs].sort() });
  }

  private async removeRuns(runs: readonly string[]): Promise<void> {
    const { trans } = this.context;
    const body = trans.__('Its code, its logs and its figures are deleted from disk for good: %1', runs.join(', '));
    if (await isMeant(trans._n('Delete %1 run?', 'Delete %1 runs?', runs.length), body, trans.__('Delete'))) {
      await this.model.remove(runs);
    }
  }
}
