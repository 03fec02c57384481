// How the charts of a page show their curves, one for all of them: axes, smoothing, what is zoomed to, and the crosshair. No DOM.
import { type ISignal, Signal } from '@lumino/signaling';
import { type Place, PLACES } from './metric_curves';
import { isRecord } from './parse';

export type Range = readonly [number, number];

/** What comes back with a page. */
export interface ViewSettings {
  readonly x: Place;
  readonly isLog: boolean;
  /** The weight of what came before, from 0 to below 1. */
  readonly smoothing: number;
}

export const MOST_SMOOTHING = 0.99;
export const PLAIN: ViewSettings = { x: 'step', isLog: false, smoothing: 0 };
const ZOOM = 0.5;

export class CurveView {
  /** From the first to the last place of all curves; null where there are none. */
  extent: Range | null = null;
  private zoomed: Range | null = null;
  private place: number | null = null;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _moved = new Signal<this, void>(this);

  constructor(private chosen: ViewSettings = PLAIN) {}

  /** The settings, or what is zoomed to. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The crosshair. */
  get moved(): ISignal<this, void> {
    return this._moved;
  }

  get settings(): ViewSettings {
    return this.chosen;
  }

  /** What is zoomed to; null for all. */
  get range(): Range | null {
    return this.zoomed;
  }

  /** Where the crosshair is; null for nowhere. */
  get cursor(): number | null {
    return this.place;
  }

  /** Set some of the settings. Places of another axis are others: the zoom and the crosshair go. */
  set(settings: Partial<ViewSettings>): void {
    if (settings.x !== undefined && settings.x !== this.chosen.x) {
      this.zoomed = null;
      this.place = null;
    }
    this.chosen = { ...this.chosen, ...settings };
    this._changed.emit();
  }

  zoomTo(range: Range | null): void {
    this.zoomed = range === null || !(range[1] > range[0]) ? null : range;
    this._changed.emit();
  }

  /** Zoom in, or out, about the crosshair, or the middle where there is none. */
  zoom(direction: 'in' | 'out'): void {
    const { extent, shown } = this;
    if (extent === null || shown === null) {
      return;
    }
    const [from, to] = shown;
    const centre = this.place !== null && this.place >= from && this.place <= to ? this.place : (from + to) / 2;
    const factor = direction === 'in' ? ZOOM : 1 / ZOOM;
    const [low, high] = [centre - (centre - from) * factor, centre + (to - centre) * factor];
    this.zoomTo(low <= extent[0] && high >= extent[1] ? null : [Math.max(low, extent[0]), Math.min(high, extent[1])]);
  }

  /** Put the crosshair at a place of all charts. */
  move(place: number | null): void {
    if (place !== this.place) {
      this.place = place;
      this._moved.emit();
    }
  }

  /** Put the crosshair at a neighbour of where it is, among places in order that are in sight. */
  moveBy(steps: number, places: ArrayLike<number>): void {
    const { shown } = this;
    const within = Array.from(places).filter((place) => shown !== null && place >= shown[0] && place <= shown[1]);
    if (within.length === 0) {
      return;
    }
    const { place } = this;
    // What lies between two places has one of them behind it and the other before.
    const at = place === null ? (steps > 0 ? -1 : within.length) : steps > 0 ? lastUpTo(within, place) : within.findIndex((one) => one >= place);
    const from = at < 0 && steps < 0 ? within.length : at;
    this.move(within[Math.min(within.length - 1, Math.max(0, from + steps))]!);
  }

  /** What the charts show of the axis; null where there is nothing. */
  get shown(): Range | null {
    return this.zoomed ?? this.extent;
  }
}

function lastUpTo(places: readonly number[], place: number): number {
  const after = places.findIndex((one) => one > place);
  return (after < 0 ? places.length : after) - 1;
}

/** Return the settings in a page's arguments. */
export function settingsOf(value: unknown): ViewSettings {
  if (!isRecord(value)) {
    return PLAIN;
  }
  const { x, isLog, smoothing } = value;
  return {
    x: PLACES.find((one) => one === x) ?? PLAIN.x,
    isLog: isLog === true,
    smoothing: typeof smoothing === 'number' && smoothing >= 0 ? Math.min(smoothing, MOST_SMOOTHING) : PLAIN.smoothing,
  };
}
