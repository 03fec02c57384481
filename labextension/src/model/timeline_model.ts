// The timeline of a run, with some of its steps to draw. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import { sentence, type Server } from './server';
import { type Timeline, timelineOf } from './timeline';

export class TimelineModel {
  timeline: Timeline | null = null;
  /** Why there is none; empty where nothing went wrong. */
  problem = '';
  private asked = 0;
  private readonly _changed = new Signal<this, void>(this);

  constructor(
    private readonly server: Pick<Server, 'timeline' | 'fileUrl'>,
    readonly run: string,
  ) {}

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get jsonUrl(): string {
    return this.server.fileUrl(this.run, 'timeline-file');
  }

  get perfettoUrl(): string {
    return this.server.fileUrl(this.run, 'timeline-file', { perfetto: 1 });
  }

  /** Read it with the steps from one on, counted from 0; of several calls the last one is shown. */
  async read(first = 0): Promise<void> {
    const asked = ++this.asked;
    let found: Timeline | null = null;
    let problem = '';
    try {
      found = timelineOf(await this.server.timeline(this.run, first));
    } catch (error) {
      problem = sentence(error);
    }
    if (asked === this.asked) {
      this.timeline = found ?? this.timeline;
      this.problem = problem;
      this._changed.emit();
    }
  }
}
