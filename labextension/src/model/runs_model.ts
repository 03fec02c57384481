// The list of runs: what is read of it and when, what is chosen in it, and what is deleted. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import type { HubModel } from './hub';
import { RunList } from './run_list';
import type { RunPage, RunRecord } from './runs';
import { sentence, type Server } from './server';

const PAGE = 50;
/** If this many runs come at once, the list is reloaded. */
const MAX_HEAD = 500;
/** A list so short cannot be scrolled to ask for more. */
const SHORT = 20;
/** A run's folder gets its description while its ranks run already. */
const DESCRIBED_MS = 1500;

/** What the list is: not read yet, as it is now, as it was when the connection was lost, or not to be read. */
export type RunsStatus = 'unread' | 'read' | 'stale' | 'failed';

export class RunsModel {
  readonly chosen = new Set<string>();
  /** Whether the last runs that are held are in sight: what comes after them is read then. */
  isAtEnd: () => boolean = () => false;
  /** How often the list was read from its head. */
  reads = 0;
  private readonly list = new RunList();
  /** Runs of which a notice has come, until a read has applied it. */
  private readonly pending = new Set<string>();
  /** Likewise, runs whose labels were changed: they may have come to what is searched for, or may have left it. */
  private readonly relabelled = new Set<string>();
  private wanted = '';
  private searched = '';
  private state: RunsStatus = 'unread';
  private fault = '';
  private isWatched = false;
  private isReadingMore = false;
  /** The number of the newest read: what an earlier one brings is dropped. */
  private generation = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly _changed = new Signal<this, number>(this);

  constructor(
    private readonly server: Pick<Server, 'opened' | 'runs' | 'runOrNull' | 'deleteRun'>,
    private readonly hub: Pick<HubModel, 'isConnected' | 'noticed' | 'labelled'>,
  ) {
    hub.noticed.connect((_, { run, state }) => {
      this.pending.add(run);
      this.refresh();
      if (state === 'running') {
        setTimeout(() => this.refresh(), DESCRIBED_MS);
      }
    });
    hub.labelled.connect((_, run) => {
      this.pending.add(run);
      this.relabelled.add(run);
      this.refresh();
    });
    server.opened.connect((_, isOpen) => (isOpen ? this.refresh() : this.disconnected()));
  }

  /** The list, or its status, changed; with how many runs came above those that were there. */
  get changed(): ISignal<this, number> {
    return this._changed;
  }

  get runs(): readonly RunRecord[] {
    return this.list.runs;
  }

  get status(): RunsStatus {
    return this.state;
  }

  /** What went wrong, as a sentence; empty where nothing did. */
  get problem(): string {
    return this.fault;
  }

  /** What the list was searched for. */
  get search(): string {
    return this.searched;
  }

  /** Keep the list as it is on the server, from now on. */
  watch(): void {
    this.isWatched = true;
    this.refresh();
  }

  rest(): void {
    this.isWatched = false;
  }

  /** Search for a text, unless another one follows within this many milliseconds. */
  searchFor(text: string, ms = 0): void {
    this.wanted = text.trim();
    this.refresh(ms);
  }

  choose(run: string, isChosen: boolean): void {
    if (isChosen) {
      this.chosen.add(run);
    } else {
      this.chosen.delete(run);
    }
  }

  /** Read the page after the runs that are held. */
  async readMore(): Promise<void> {
    const { list } = this;
    if (this.isReadingMore || list.next === null || !this.hub.isConnected) {
      return;
    }
    this.isReadingMore = true;
    const { generation } = this;
    try {
      const page = await this.server.runs(this.searched, list.next, PAGE);
      if (generation === this.generation) {
        list.append(page);
      }
    } catch (error) {
      list.next = null;
      this.fail(sentence(error));
    } finally {
      this.isReadingMore = false;
    }
    this.notify(0);
  }

  /** Delete runs from disk; those that cannot be deleted stay chosen. */
  async remove(runs: readonly string[]): Promise<void> {
    let problem = '';
    for (const run of runs) {
      try {
        // One that another page has deleted is gone, too.
        if ((await this.server.runOrNull(run)) !== null) {
          await this.server.deleteRun(run);
        }
        this.chosen.delete(run);
        this.list.remove(run);
      } catch (error) {
        problem = sentence(error);
      }
    }
    await this.read();
    if (problem !== '') {
      this.fail(problem);
      this.notify(0);
    }
  }

  private refresh(ms = 0): void {
    clearTimeout(this.timer);
    if (this.isWatched && this.hub.isConnected) {
      this.timer = setTimeout(() => void this.read(), ms);
    }
  }

  private disconnected(): void {
    clearTimeout(this.timer);
    this.generation++;
    this.state = 'stale';
    this.fault = '';
    this.notify(0);
  }

  /** Read the list's head, and what has changed below it; all that was read before stays. */
  private async read(): Promise<void> {
    const generation = ++this.generation;
    const search = this.wanted;
    const isOther = search !== this.searched;
    const relabelled = [...this.relabelled];
    const isRelabelled = relabelled.length > 0 && search !== '' && !isOther;
    let added = 0;
    try {
      const head = await this.head(search, isOther, isRelabelled ? this.list.runs.length : 0);
      const applied = [...this.pending];
      const changed = isRelabelled ? [] : await this.changedBelow(head);
      if (generation !== this.generation) {
        return;
      }
      // Not before this: a read that a later one overtakes would take the notices with it.
      applied.forEach((run) => this.pending.delete(run));
      relabelled.forEach((run) => this.relabelled.delete(run));
      if (isOther || isRelabelled || !this.list.reaches(head)) {
        this.list.reset(head);
      } else {
        added = this.list.join(head);
      }
      this.reads++;
      changed.forEach(([run, record]) => (record === null ? this.list.remove(run) : this.list.update(record)));
      this.searched = search;
      this.state = 'read';
      this.fault = '';
    } catch (error) {
      if (generation === this.generation) {
        this.fail(sentence(error));
      }
    }
    this.notify(added);
  }

  /** Return the newest runs, as many as it takes to reach those that are there, and at least so many. */
  private async head(search: string, isOther: boolean, least: number): Promise<RunPage> {
    let head = await this.server.runs(search, null, PAGE);
    const isShort = (): boolean => head.next !== null && head.runs.length < least;
    const isApart = (): boolean => !isOther && this.list.runs.length > 0 && !this.list.reaches(head);
    while ((isShort() || isApart()) && head.runs.length < MAX_HEAD) {
      const more = await this.server.runs(search, head.next, PAGE);
      head = { runs: [...head.runs, ...more.runs], more: more.more, next: more.next };
    }
    return head;
  }

  /** Return what became of the runs further down that have a notice, or ran when they were read; null of those deleted. */
  private async changedBelow({ runs }: RunPage): Promise<[string, RunRecord | null][]> {
    const newest = new Set(runs.map(({ run }) => run));
    const isOpen = ({ run, state }: RunRecord): boolean => !newest.has(run) && (state === 'running' || this.pending.has(run));
    const below = this.list.runs.filter(isOpen).map(({ run }) => run);
    return Promise.all(below.map(async (run): Promise<[string, RunRecord | null]> => [run, await this.server.runOrNull(run)]));
  }

  private fail(problem: string): void {
    this.state = 'failed';
    this.fault = problem;
  }

  private notify(added: number): void {
    this._changed.emit(added);
    if (this.runs.length < SHORT || this.isAtEnd()) {
      // A page of a search reads a limited number of runs, and may have found few; or the page that was requested at
      // the end of the list is outdated.
      void this.readMore();
    }
  }
}
