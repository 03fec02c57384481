// What a profile came to: where ranks differ, and the flame graph.
import { h, setHidden, setText } from '../components/dom';
import { FlameGraph } from '../components/flame_graph';
import { number } from '../components/format';
import { PROFILE_SECONDS, type ProfileModel } from '../model/profile_model';
import type { Profile } from '../model/profile';
import { ranksText } from '../model/words';
import type { Context } from './context';

export class ProfileView {
  readonly element: HTMLElement;
  /** Takes a profile; it stands beside other buttons. */
  readonly button: HTMLButtonElement;
  private readonly status = h('p', { class: 'ddl-hint', role: 'status' });
  private readonly differences = h('ul', { class: 'ddl-profile-differences' });
  private readonly notes = h('div');
  private readonly graph: FlameGraph;
  private readonly result: HTMLElement;
  private shown: Profile | null = null;

  constructor(
    private readonly trans: Context['trans'],
    private readonly model: ProfileModel,
  ) {
    const title = trans.__('Sample for %1 s where each rank’s time goes; it works while a cell runs', PROFILE_SECONDS);
    this.button = h('button', { class: 'ddl-button', title }, trans.__('Profile %1 s', PROFILE_SECONDS));
    this.button.addEventListener('click', () => void model.take());
    this.graph = new FlameGraph({
      label: trans.__('Where the ranks’ time goes'),
      all: trans.__('all'),
      hint: trans.__('Arrows move, Enter or a click zooms, Escape goes back. ≠ marks where a rank differs from the others by 10% of the time or more.'),
      ofTheTime: (share) => trans.__('%1 of the time', share),
      itself: (share) => trans.__('%1 itself', share),
      samples: (count) => trans._n('%2 sample', '%2 samples', count, number(count)),
      rank: (rank, share) => trans.__('rank %1: %2', rank, share),
    });
    this.result = h('div', { hidden: '' }, this.notes, this.differences, this.graph.element);
    this.element = h('section', { class: 'ddl-profile', 'aria-label': trans.__('Profile') }, this.status, this.result);
    model.changed.connect(this.draw, this);
    this.draw();
  }

  dispose(): void {
    this.model.changed.disconnect(this.draw, this);
  }

  private draw(): void {
    const { trans } = this;
    const { status, profile, problem } = this.model;
    this.button.disabled = status === 'sampling';
    setHidden(this.element, status === 'none');
    if (status === 'sampling') {
      setText(this.status, trans.__('Sampling the ranks for %1 s…', PROFILE_SECONDS));
    } else if (status === 'failed') {
      setText(this.status, problem);
    } else if (profile !== null && profile !== this.shown) {
      this.show(profile);
    }
  }

  private show(profile: Profile): void {
    const { trans } = this;
    this.shown = profile;
    const time = new Date().toLocaleTimeString(undefined, { hourCycle: 'h23' });
    const ranks = ranksText(profile.ranks.length, trans);
    setText(this.status, trans.__('%1: %2, %3 of %4 samples taken', time, ranks, number(profile.samples), number(profile.ticks)));
    this.notes.replaceChildren(...profile.notes.map((note) => h('p', { class: 'ddl-note' }, note)));
    this.differences.replaceChildren(...profile.differences.map(({ call, text }) => this.difference(profile, call, text)));
    setHidden(this.result, false);
    this.graph.show(profile);
  }

  private difference(profile: Profile, call: number, text: string): HTMLElement {
    const { where, text: line } = profile.calls[call]!;
    const button = h('button', { class: 'ddl-run-link' }, line === '' ? where : `${where}: ${line}`);
    button.addEventListener('click', () => this.graph.zoom(call));
    return h('li', {}, button, ` ≠ ${text}`);
  }
}
