// The sidebar's lower part: what ran, newest first, with a search.
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';
import { h, setText } from '../components/dom';
import { fillRunRow, makeRunRow } from '../components/run_rows';
import { followTheme } from '../components/theme';
import { VirtualRows } from '../components/virtual';
import type { RunRecord } from '../model/runs';
import { CommandIDs } from '../tokens';
import { type Context, sentence } from './context';

const PAGE = 50;
/** A list so short cannot be scrolled to ask for more. */
const SHORT = 20;
const ROW_HEIGHT = 42;
const TYPING_MS = 200;
const DESCRIBED_MS = 1500;

export class RunsSection extends Widget {
  private readonly search: HTMLInputElement;
  private readonly compare: HTMLButtonElement;
  private readonly remove: HTMLButtonElement;
  private readonly told = h('p', { class: 'ddl-hint', role: 'status' });
  private readonly space = h('div', { class: 'ddl-space', role: 'presentation' });
  private readonly body: HTMLElement;
  private readonly rows: VirtualRows;
  private readonly places = new Map<HTMLElement, RunRecord>();
  private readonly chosen = new Set<string>();
  private runs: RunRecord[] = [];
  private before: string | null = null;
  private isReading = false;
  private asked = 0;
  private timer = 0;

  constructor(private readonly context: Context) {
    super();
    const { trans, hub } = context;
    this.addClass('ddl-panel');
    this.addClass('ddl-runs-section');
    this.title.label = trans.__('Runs');
    this.search = h('input', { type: 'text', placeholder: trans.__('search'), 'aria-label': trans.__('Search runs'), spellcheck: 'false' });
    this.compare = h('button', { type: 'button', class: 'ddl-button', title: trans.__('Choose two runs') }, trans.__('Compare'));
    this.remove = h('button', { type: 'button', class: 'ddl-button' }, trans.__('Delete…'));
    this.body = h('div', { class: 'ddl-run-list', role: 'list', 'aria-label': trans.__('Runs'), tabindex: '0' }, this.space);
    const bar = h('div', { class: 'ddl-actions', role: 'toolbar', 'aria-label': trans.__('Runs') }, this.search, this.compare, this.remove);
    this.node.append(bar, this.told, this.body);
    this.rows = new VirtualRows(
      this.body,
      this.space,
      ROW_HEIGHT,
      () => makeRunRow((row) => this.open(row), (row, isChosen) => this.choose(row, isChosen)),
      (row, at) => this.fill(row, at),
      (isAtEnd) => void (isAtEnd && this.readMore()),
    );
    this.search.addEventListener('input', () => this.later(TYPING_MS));
    this.compare.addEventListener('click', () => {
      const [first, second] = [...this.chosen].sort();
      void context.commands.execute(CommandIDs.compare, { first: first ?? '', second: second ?? '' });
    });
    this.remove.addEventListener('click', () => void this.removeChosen());
    hub.noticed.connect((_, { state }) => {
      this.later(0);
      if (state === 'running') {
        // Its folder gets its description while the ranks are at it already.
        window.setTimeout(() => this.later(0), DESCRIBED_MS);
      }
    });
    context.connection.opened.connect((_, isOpen) => this.onConnection(isOpen));
    followTheme(this.node, () => undefined);
    this.enable();
  }

  protected override onAfterShow(): void {
    this.later(0);
  }

  protected override onAfterAttach(): void {
    this.later(0);
  }

  protected override onResize(): void {
    this.rows.resize();
    if (this.runs.length > 0) {
      this.rows.update(this.runs.length);
    }
  }

  private onConnection(isOpen: boolean): void {
    if (isOpen) {
      this.later(0);
    } else {
      window.clearTimeout(this.timer);
      this.asked++;
      this.tell(this.runs.length === 0 ? '' : this.context.trans.__('As they were when the Jupyter server answered last.'));
    }
  }

  private later(ms: number): void {
    window.clearTimeout(this.timer);
    if (this.isVisible && this.context.hub.isConnected) {
      this.timer = window.setTimeout(() => void this.read(), ms);
    }
  }

  private async read(): Promise<void> {
    const asked = ++this.asked;
    const { trans, connection } = this.context;
    try {
      const count = Math.max(PAGE, Math.min(this.runs.length, 4 * PAGE));
      const { runs, next } = await connection.runs(this.search.value.trim(), null, count);
      if (asked !== this.asked) {
        return;
      }
      this.runs = [...runs];
      this.before = next;
      const nothing =
        this.search.value.trim() === ''
          ? trans.__('No run yet. A cell that begins with %1 is one.', '%%distributed')
          : trans.__('No run has that in it.');
      this.tell(runs.length === 0 ? nothing : '');
    } catch (error) {
      if (asked === this.asked) {
        this.tell(sentence(error));
      }
    }
    this.draw();
  }

  private async readMore(): Promise<void> {
    if (this.isReading || this.before === null || !this.context.hub.isConnected) {
      return;
    }
    this.isReading = true;
    const asked = this.asked;
    try {
      const { runs, next } = await this.context.connection.runs(this.search.value.trim(), this.before, PAGE);
      if (asked === this.asked) {
        this.runs.push(...runs);
        this.before = next;
      }
    } catch (error) {
      this.before = null;
      this.tell(sentence(error));
    } finally {
      this.isReading = false;
    }
    this.draw();
  }

  private draw(): void {
    const there = new Set(this.runs.map(({ run }) => run));
    for (const run of this.chosen) {
      if (!there.has(run)) {
        this.chosen.delete(run);
      }
    }
    this.rows.update(this.runs.length);
    this.enable();
    if (this.runs.length < SHORT) {
      // A page of a search looks at so many runs only, and may have found few of them.
      void this.readMore();
    }
  }

  private fill(row: HTMLElement, at: number): void {
    const record = this.runs[at];
    if (record !== undefined) {
      this.places.set(row, record);
      fillRunRow(row, record, this.chosen.has(record.run), (text) => this.context.trans.__(text));
    }
  }

  private open(row: HTMLElement): void {
    const record = this.places.get(row);
    if (record !== undefined) {
      void this.context.commands.execute(CommandIDs.openRun, { run: record.run });
    }
  }

  private choose(row: HTMLElement, isChosen: boolean): void {
    const run = this.places.get(row)?.run;
    if (run !== undefined && isChosen) {
      this.chosen.add(run);
    } else if (run !== undefined) {
      this.chosen.delete(run);
    }
    this.enable();
  }

  private enable(): void {
    this.compare.disabled = this.chosen.size !== 2;
    this.remove.disabled = this.chosen.size === 0;
  }

  private tell(text: string): void {
    setText(this.told, text);
    this.told.hidden = text === '';
  }

  private async removeChosen(): Promise<void> {
    const { trans, connection } = this.context;
    const runs = [...this.chosen];
    const { button } = await showDialog({
      title: trans._n('Delete %1 run?', 'Delete %1 runs?', runs.length),
      body: trans.__('Its code, its logs and its figures are deleted from disk for good: %1', runs.join(', ')),
      buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('Delete') })],
    });
    if (!button.accept) {
      return;
    }
    let problem = '';
    for (const run of runs) {
      try {
        await connection.deleteRun(run);
        this.chosen.delete(run);
      } catch (error) {
        problem = sentence(error);
      }
    }
    await this.read();
    if (problem !== '') {
      this.tell(problem);
    }
  }
}
