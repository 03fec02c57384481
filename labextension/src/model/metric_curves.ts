// A run's curves, one for each metric in training and in validation, over steps, epochs or time. No DOM.
import type { Values } from './compare';
import type { Epoch } from './epochs';
import type { RunModel } from './run';
import { FAR } from './series';

export const PLACES = ['step', 'epoch', 'time'] as const;
export type Place = (typeof PLACES)[number];
export type Split = 'training' | 'validation';

/** The name of the throughput's curve, which is no metric of Keras's. */
export const RATE = 'samples/s';
const VALIDATION = 'val_';

export interface Curve {
  readonly places: readonly number[];
  readonly values: Values;
}

export interface MetricCurve extends Curve {
  readonly metric: string;
  readonly split: Split;
}

/** Return the metric that a name of Keras's logs stands for, and whether it was measured in training or in validation. */
export function splitName(name: string): { metric: string; split: Split } {
  const isValidation = name.startsWith(VALIDATION) && name.length > VALIDATION.length;
  return isValidation ? { metric: name.slice(VALIDATION.length), split: 'validation' } : { metric: name, split: 'training' };
}

/** Return the metrics' names: the loss first, then others as they came, the throughput last. */
export function metricNames(curves: readonly Pick<MetricCurve, 'metric'>[]): string[] {
  const names = [...new Set(curves.map(({ metric }) => metric))];
  const order = (name: string): number => (name === 'loss' ? 0 : name === RATE ? 2 : 1);
  return names.sort((a, b) => order(a) - order(b));
}

/** Return all curves of a run: those of its metrics, and its throughput. */
export function curvesOf(model: RunModel, x: Place): MetricCurve[] {
  return [...metricCurvesOf(model, x), rateCurve(model, x)].filter((curve) => curve.values.length > 0);
}

/** Return the curves of a run's metrics.
 *
 * Over epochs each has what the epoch came to, as Keras's history has it, and the first one is 1. Over steps and time,
 * training is the mean of the ranks' samples, and validation what the epochs came to.
 */
export function metricCurvesOf(model: RunModel, x: Place): MetricCurve[] {
  const { list } = model.epochs;
  const place = placeOf(model, x);
  const ofEpochs = namesIn(list).map((name) => curveOf(name, list, place));
  const isOfEpochs = new Set(ofEpochs.filter(({ split }) => x === 'epoch' || split === 'validation').map(nameOf));
  const metrics = x === 'time' ? model.curves.metricsOverTime : model.curves.metrics;
  const places = x === 'epoch' ? [] : placesOf(model, x);
  const sampled = x === 'epoch' ? [] : [...metrics].map(([name, means]) => ({ ...splitName(name), ...known(places, means.means()) }));
  const curves = [...sampled.filter((curve) => !isOfEpochs.has(nameOf(curve))), ...ofEpochs.filter((curve) => isOfEpochs.has(nameOf(curve)))];
  return curves.filter((curve) => curve.values.length > 0);
}

/** Return a metric's value after the last epoch, or, where none ended, the newest. */
export function finalValue(model: RunModel, name: string): number | null {
  return model.epochs.list.at(-1)?.metrics[name] ?? model.curves.newest.get(name) ?? null;
}

const nameOf = ({ metric, split }: Pick<MetricCurve, 'metric' | 'split'>): string => (split === 'validation' ? VALIDATION + metric : metric);

function namesIn(epochs: readonly Epoch[]): string[] {
  return [...new Set(epochs.flatMap(({ metrics }) => Object.keys(metrics)))];
}

function placeOf({ curves }: RunModel, x: Place): (epoch: Epoch) => number {
  const begin = Number.isNaN(curves.time.origin) ? 0 : curves.time.origin;
  return x === 'epoch' ? ({ epoch }) => epoch + 1 : x === 'step' ? ({ step }) => step : ({ at_s }) => at_s - begin;
}

function curveOf(name: string, epochs: readonly Epoch[], place: (epoch: Epoch) => number): MetricCurve {
  const found = epochs.filter(({ metrics }) => isDrawn(metrics[name])).map((epoch) => [place(epoch), epoch.metrics[name]!] as const);
  // In runs of before, steps begin again where a cell trains several times.
  found.sort(([a], [b]) => a - b);
  return { ...splitName(name), places: found.map(([at]) => at), values: found.map(([, value]) => value) };
}

const isDrawn = (value: number | null | undefined): boolean => value != null && Math.abs(value) < FAR;

/** Return the middles of the bins: whole steps where a bin has one, seconds since the first sample. */
function placesOf({ curves }: RunModel, x: 'step' | 'time'): number[] {
  if (x === 'time') {
    return Array.from(curves.time.places());
  }
  return Array.from(curves.steps.places(), (place) => curves.steps.origin + place - 0.5);
}

function known(places: readonly number[], values: Values): Curve {
  const has = values.map(isDrawn);
  return { places: places.filter((_, at) => has[at]), values: values.filter((_, at) => has[at]) };
}

/** Samples/s of all ranks: measured over time, at the step or in the epoch of that time. */
function rateCurve(model: RunModel, x: Place): MetricCurve {
  const { rates, settled } = model.ratesOverTime();
  const seconds = Array.from(model.curves.time.places()).slice(0, settled);
  const totals = rates.total.slice(0, settled);
  const of = (curve: Curve): MetricCurve => ({ metric: RATE, split: 'training', ...curve });
  if (x === 'time') {
    return of(known(seconds, totals));
  }
  if (x === 'epoch') {
    return of(ratesByEpoch(model, seconds, totals));
  }
  const steps = model.curves.stepOverTime.means();
  const at = seconds.map((_, bin) => bin).filter((bin) => isDrawn(totals[bin]) && steps[bin] != null);
  at.sort((a, b) => steps[a]! - steps[b]!);
  return of({ places: at.map((bin) => steps[bin]!), values: at.map((bin) => totals[bin]!) });
}

/** The mean of each epoch's time. */
function ratesByEpoch(model: RunModel, seconds: readonly number[], totals: Values): Curve {
  const ends = placeOf(model, 'time');
  const { list } = model.epochs;
  const found = list.map((epoch, at) => {
    const from = at === 0 ? -Infinity : ends(list[at - 1]!);
    const within = totals.filter((value, bin) => isDrawn(value) && seconds[bin]! > from && seconds[bin]! <= ends(epoch));
    return within.length === 0 ? null : within.reduce<number>((sum, value) => sum + value!, 0) / within.length;
  });
  return known(list.map(({ epoch }) => epoch + 1), found);
}
