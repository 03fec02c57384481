// The sidebar's lower part: what ran, newest first, with a search.
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';
import { h, setAttribute, setText } from '../components/dom';
import { ListKeys } from '../components/list_keys';
import { fillRunRow, makeRunRow, type RowTexts } from '../components/run_rows';
import { followTheme } from '../components/theme';
import { VirtualRows } from '../components/virtual';
import type { RunRecord } from '../model/runs';
import type { RunsModel } from '../model/runs_model';
import { CommandIDs } from '../tokens';
import type { Context } from './context';
import { ExampleOffer } from './example_offer';

const ROW_HEIGHT = 42;
const TYPING_MS = 200;

export class RunsSection extends Widget {
  private readonly search: HTMLInputElement;
  private readonly compare: HTMLButtonElement;
  private readonly remove: HTMLButtonElement;
  private readonly status = h('p', { class: 'ddl-hint', role: 'status' });
  private readonly example: ExampleOffer;
  private readonly space = h('div', { class: 'ddl-space', role: 'presentation' });
  private readonly body: HTMLElement;
  private readonly rows: VirtualRows;
  private readonly places = new Map<HTMLElement, RunRecord>();
  private readonly texts: RowTexts;
  private readonly keys: ListKeys;

  constructor(
    private readonly context: Context,
    private readonly model: RunsModel,
  ) {
    super();
    const { trans } = context;
    this.addClass('ddl-panel');
    this.addClass('ddl-runs-section');
    this.title.label = trans.__('Runs');
    this.search = h('input', { type: 'text', placeholder: trans.__('search'), 'aria-label': trans.__('Search runs'), spellcheck: 'false' });
    this.compare = h('button', { type: 'button', class: 'ddl-button', title: trans.__('Choose two runs or more') }, trans.__('Compare'));
    this.remove = h('button', { type: 'button', class: 'ddl-button' }, trans.__('Delete…'));
    this.texts = {
      word: (text) => trans.__(text),
      choose: (when, state) => trans.__('Choose the run of %1, %2', when, state),
    };
    this.body = h('div', { class: 'ddl-run-list', role: 'group', 'aria-label': trans.__('Runs'), tabindex: '0' }, this.space);
    const bar = h('div', { class: 'ddl-actions', role: 'toolbar', 'aria-label': trans.__('Runs') }, this.search, this.compare, this.remove);
    this.example = new ExampleOffer(context);
    this.node.append(bar, this.status, this.example.element, this.body);
    this.rows = new VirtualRows(
      this.body,
      this.space,
      ROW_HEIGHT,
      () => makeRunRow((row) => this.open(row), (row, isChosen) => this.choose(row, isChosen)),
      (row, at) => this.fill(row, at),
      (isAtEnd) => {
        this.keys.follow();
        if (isAtEnd) {
          void model.readMore();
        }
      },
    );
    this.keys = new ListKeys(this.body, this.rows, ROW_HEIGHT, {
      ids: () => model.runs.map(({ run }) => run),
      idOf: (row) => this.places.get(row)?.run ?? null,
      reachedEnd: () => void model.readMore(),
    });
    this.search.addEventListener('input', () => model.searchFor(this.search.value, TYPING_MS));
    this.compare.addEventListener('click', () => context.act(CommandIDs.compare, { runs: [...model.chosen].sort() }));
    this.remove.addEventListener('click', () => void this.removeChosen());
    model.isAtEnd = () => this.rows.isAtEnd;
    model.changed.connect((_, added) => this.draw(added));
    followTheme(this.node, () => undefined);
    this.enable();
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
    if (this.model.runs.length > 0) {
      this.rows.update(this.model.runs.length);
    }
  }

  /** @param added how many runs came above those that were there: these stay in sight. */
  private draw(added: number): void {
    const { length } = this.model.runs;
    const status = this.statusText();
    setText(this.status, status);
    this.status.hidden = status === '';
    const { trans } = this.context;
    this.example.show(this.isEmpty ? trans.__('No run yet. A cell that begins with %1 is one.', '%%distributed') : '');
    this.rows.update(length);
    if (added > 0 && this.body.scrollTop > 0) {
      this.rows.shift(added);
    }
    // A list must have items, and what has no role no label.
    setAttribute(this.body, 'role', length > 0 ? 'list' : 'group');
    this.enable();
    this.keys.follow();
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

  private fill(row: HTMLElement, at: number): void {
    const record = this.model.runs[at];
    if (record !== undefined) {
      this.places.set(row, record);
      fillRunRow(row, record, this.model.chosen.has(record.run), this.texts);
    }
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
    this.compare.hidden = !this.context.can(CommandIDs.compare);
    this.compare.disabled = size < 2;
    this.remove.disabled = size === 0;
  }

  private async removeChosen(): Promise<void> {
    const { trans } = this.context;
    const runs = [...this.model.chosen];
    const { button } = await showDialog({
      title: trans._n('Delete %1 run?', 'Delete %1 runs?', runs.length),
      body: trans.__('Its code, its logs and its figures are deleted from disk for good: %1', runs.join(', ')),
      buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('Delete') })],
      defaultButton: 0,
    });
    if (button.accept) {
      await this.model.remove(runs);
    }
  }
}
