// The sidebar's lower part: what ran, newest first, with a search.
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';
import { h, setAttribute, setText } from '../components/dom';
import { ListKeys } from '../components/list_keys';
import { fillRunRow, makeRunRow, type RowTexts } from '../components/run_rows';
import { followTheme } from '../components/theme';
import { VirtualRows } from '../components/virtual';
import { RunList } from '../model/run_list';
import type { RunPage, RunRecord } from '../model/runs';
import { CommandIDs } from '../tokens';
import { type Context, sentence } from './context';

const PAGE = 50;
/** So many runs that came at once begin the list anew. */
const MAX_HEAD = 500;
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
  private readonly texts: RowTexts;
  private readonly keys: ListKeys;
  private readonly chosen = new Set<string>();
  private readonly list = new RunList();
  /** Runs that were told of since the list was read. */
  private readonly noted = new Set<string>();
  /** What the list was searched for. */
  private searched = '';
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
    this.texts = {
      word: (text) => trans.__(text),
      choose: (when, state) => trans.__('Choose the run of %1, %2', when, state),
    };
    this.body = h('div', { class: 'ddl-run-list', role: 'group', 'aria-label': trans.__('Runs'), tabindex: '0' }, this.space);
    const bar = h('div', { class: 'ddl-actions', role: 'toolbar', 'aria-label': trans.__('Runs') }, this.search, this.compare, this.remove);
    this.node.append(bar, this.told, this.body);
    this.rows = new VirtualRows(
      this.body,
      this.space,
      ROW_HEIGHT,
      () => makeRunRow((row) => this.open(row), (row, isChosen) => this.choose(row, isChosen)),
      (row, at) => this.fill(row, at),
      (isAtEnd) => {
        this.keys.follow();
        if (isAtEnd) {
          void this.readMore();
        }
      },
    );
    this.keys = new ListKeys(this.body, this.rows, ROW_HEIGHT, {
      ids: () => this.list.runs.map(({ run }) => run),
      idOf: (row) => this.places.get(row)?.run ?? null,
      reachedEnd: () => void this.readMore(),
    });
    this.search.addEventListener('input', () => this.later(TYPING_MS));
    this.compare.addEventListener('click', () => {
      const [first, second] = [...this.chosen].sort();
      void context.commands.execute(CommandIDs.compare, { first: first ?? '', second: second ?? '' });
    });
    this.remove.addEventListener('click', () => void this.removeChosen());
    hub.noticed.connect((_, { run, state }) => {
      this.noted.add(run);
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
    if (this.list.runs.length > 0) {
      this.rows.update(this.list.runs.length);
    }
  }

  private onConnection(isOpen: boolean): void {
    if (isOpen) {
      this.later(0);
    } else {
      window.clearTimeout(this.timer);
      this.asked++;
      this.tell(this.list.runs.length === 0 ? '' : this.context.trans.__('As they were when the Jupyter server answered last.'));
    }
  }

  private later(ms: number): void {
    window.clearTimeout(this.timer);
    if (this.isVisible && this.context.hub.isConnected) {
      this.timer = window.setTimeout(() => void this.read(), ms);
    }
  }

  /** Read the list's head, and what has changed below it; all that was read before stays. */
  private async read(): Promise<void> {
    const asked = ++this.asked;
    const { trans } = this.context;
    const search = this.search.value.trim();
    const isOther = search !== this.searched;
    let added = 0;
    try {
      const head = await this.head(search, isOther);
      const noted = new Set(this.noted);
      const changed = await this.changedBelow(head);
      if (asked !== this.asked) {
        return;
      }
      // Not before this: a read that a later one overtakes would take what was noted with it.
      noted.forEach((run) => this.noted.delete(run));
      if (isOther || !this.list.reaches(head)) {
        this.list.reset(head);
      } else {
        added = this.list.join(head);
      }
      changed.forEach((record) => this.list.update(record));
      this.searched = search;
      const nothing =
        search === '' ? trans.__('No run yet. A cell that begins with %1 is one.', '%%distributed') : trans.__('No run has that in it.');
      this.tell(this.list.runs.length === 0 ? nothing : '');
    } catch (error) {
      if (asked === this.asked) {
        this.tell(sentence(error));
      }
    }
    this.draw(added);
  }

  /** Return the newest runs, as many as it takes to reach those that are there. */
  private async head(search: string, isOther: boolean): Promise<RunPage> {
    const { connection } = this.context;
    let head = await connection.runs(search, null, PAGE);
    while (!isOther && this.list.runs.length > 0 && !this.list.reaches(head) && head.runs.length < MAX_HEAD) {
      const more = await connection.runs(search, head.next, PAGE);
      head = { runs: [...head.runs, ...more.runs], more: more.more, next: more.next };
    }
    return head;
  }

  /** Return what became of the runs further down that were told of, or ran when they were read. */
  private async changedBelow({ runs }: RunPage): Promise<RunRecord[]> {
    const newest = new Set(runs.map(({ run }) => run));
    const isOpen = ({ run, state }: RunRecord): boolean => !newest.has(run) && (state === 'running' || this.noted.has(run));
    const below = this.list.runs.filter(isOpen).map(({ run }) => run);
    const found = await Promise.all(below.map((run) => this.context.connection.runOrNull(run)));
    below.forEach((run, at) => found[at] === null && this.list.remove(run));
    return found.filter((record) => record !== null);
  }

  private async readMore(): Promise<void> {
    const { list } = this;
    if (this.isReading || list.next === null || !this.context.hub.isConnected) {
      return;
    }
    this.isReading = true;
    const asked = this.asked;
    try {
      const page = await this.context.connection.runs(this.searched, list.next, PAGE);
      if (asked === this.asked) {
        list.append(page);
      }
    } catch (error) {
      list.next = null;
      this.tell(sentence(error));
    } finally {
      this.isReading = false;
    }
    this.draw();
  }

  /** @param added how many runs came above those that were there: these stay in sight. */
  private draw(added = 0): void {
    const { length } = this.list.runs;
    this.rows.update(length);
    if (added > 0 && this.body.scrollTop > 0) {
      this.rows.shift(added);
    }
    // A list must have items, and what has no role no label.
    setAttribute(this.body, 'role', length > 0 ? 'list' : 'group');
    this.enable();
    this.keys.follow();
    if (length < SHORT || this.rows.isAtEnd) {
      // A page of a search looks at so many runs only, and may have found few of them; or what was read for
      // somebody who had scrolled to the end was overtaken.
      void this.readMore();
    }
  }

  private fill(row: HTMLElement, at: number): void {
    const record = this.list.runs[at];
    if (record !== undefined) {
      this.places.set(row, record);
      fillRunRow(row, record, this.chosen.has(record.run), this.texts);
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
      defaultButton: 0,
    });
    if (!button.accept) {
      return;
    }
    let problem = '';
    for (const run of runs) {
      try {
        // One that another page has deleted is gone, too.
        if ((await connection.runOrNull(run)) !== null) {
          await connection.deleteRun(run);
        }
        this.chosen.delete(run);
        this.list.remove(run);
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
