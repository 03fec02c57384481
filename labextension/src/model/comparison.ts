// Compares runs: their records, and their events while they are shown. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import type { LiveRun, LiveRuns } from './live';
import { cellText, idText } from './runs';
import { type RunDetails, sentence, type Server } from './server';

export class ComparisonModel {
  /** Of each run what its folder says; null before that is known, and of a run that is not there. */
  details: readonly (RunDetails | null)[];
  /** What went wrong, as sentences; empty where nothing did. */
  problem = '';
  private shown: readonly LiveRun[] = [];
  private isWatched = false;
  private readonly _changed = new Signal<this, void>(this);

  constructor(
    private readonly server: Pick<Server, 'run'>,
    private readonly live: Pick<LiveRuns, 'open' | 'reopen' | 'close'>,
    readonly runs: readonly string[],
  ) {
    this.details = runs.map(() => null);
  }

  /** The runs' records, or their events. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The runs' events, in the order of the runs; none before they were watched. */
  get lives(): readonly LiveRun[] {
    return this.shown;
  }

  /** What each run is called: by its user, its cell or script, and where that is not known or not its alone, by its id without the time. */
  get names(): readonly string[] {
    const given = this.details.map((one) => (one === null ? '' : (one.record.name ?? (cellText(one.record) || fileOf(one.facts.script)))));
    return given.map((name, at) => {
      const run = this.runs[at]!;
      return name === '' ? idText(run) : given.filter((other) => other === name).length > 1 ? `${name} ${run.split('-').at(-1)!}` : name;
    });
  }

  async read(): Promise<void> {
    const found = await Promise.allSettled(this.runs.map((run) => this.server.run(run)));
    this.details = found.map((one) => (one.status === 'fulfilled' ? one.value : null));
    const problems = found.flatMap((one) => (one.status === 'rejected' ? [sentence(one.reason)] : []));
    this.problem = [...new Set(problems)].join('\n');
    this._changed.emit();
  }

  /** Have the runs' events come. */
  watch(): void {
    if (this.isWatched) {
      return;
    }
    this.isWatched = true;
    const { live, shown } = this;
    this.shown = shown.length === 0 ? this.runs.map((run) => live.open(run)) : shown.map((one) => live.reopen(one));
    for (const one of this.shown) {
      one.changed.connect(this.notify, this);
    }
    this._changed.emit();
  }

  rest(): void {
    if (!this.isWatched) {
      return;
    }
    this.isWatched = false;
    for (const one of this.shown) {
      one.changed.disconnect(this.notify, this);
      this.live.close(one);
    }
  }

  private notify(): void {
    this._changed.emit();
  }
}

const fileOf = (path: string | null): string => path?.split('/').at(-1) ?? '';
