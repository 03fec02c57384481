// Where ranks are to be started: this host, the queue of a scheduler, or a profile.
import { isQueue, type Place } from '../model/place';
import { h, setText } from './dom';

export interface PlaceTexts {
  readonly place: string;
  readonly here: string;
}

export class PlaceChoice {
  readonly element: HTMLElement;
  private readonly select = h('select', {});
  private readonly description = h('p', { class: 'ddl-note' });
  private readonly problem = h('p', { class: 'ddl-field-fault', role: 'alert' });
  private places: readonly Place[] = [];

  constructor(private readonly texts: PlaceTexts) {
    const label = h('label', {}, h('span', {}, texts.place), this.select);
    this.element = h('div', { class: 'ddl-field' }, label, this.description, this.problem);
    this.select.addEventListener('input', () => this.describe());
    this.show([], '');
  }

  /** The chosen place; null for this host. */
  get chosen(): Place | null {
    return this.places[this.select.selectedIndex - 1] ?? null;
  }

  /** Offer these places, and say why there are no others. */
  show(places: readonly Place[], problem: string): void {
    const { chosen } = this;
    const isSame = JSON.stringify(places) === JSON.stringify(this.places);
    if (!isSame || this.select.options.length === 0) {
      this.places = places;
      this.select.replaceChildren(h('option', {}, this.texts.here), ...places.map(({ title }) => h('option', {}, title)));
      this.select.selectedIndex = chosen === null ? 0 : 1 + places.findIndex(({ title }) => title === chosen.title);
    }
    setText(this.problem, problem);
    this.element.hidden = places.length === 0 && problem === '';
    this.describe();
  }

  private describe(): void {
    setText(this.description, this.chosen?.description ?? '');
  }
}

/** Return what a field holds where nothing is written; the text for a place that does not say. */
export function placeholders(place: Place | null, unsaid: string): Record<'ranks' | 'nodes' | 'perNode' | 'time' | 'partition', string> {
  const one = isQueue(place) ? 1 : null;
  const text = (value: string | number | null | undefined): string => (value === null || value === undefined ? unsaid : String(value));
  return {
    ranks: text(place?.ranks),
    nodes: text(place?.nodes ?? one),
    perNode: text(place?.ntasks_per_node ?? one),
    time: text(place?.time),
    partition: text(place?.partition),
  };
}
