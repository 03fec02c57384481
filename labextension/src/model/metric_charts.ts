// The charts of several runs: one for each metric, training and validation together. No DOM.
import { type Curve, onOneAxis, type Values } from './compare';
import type { Range, ViewSettings } from './curve_view';
import { curvesOf, metricNames, type MetricCurve, RATE, type Split } from './metric_curves';
import type { RunModel } from './run';
import { smoothed } from './smoothing';

export interface ChartLine extends Curve {
  /** The run's place among those that are compared. */
  readonly run: number;
  readonly split: Split;
  /** As it is, without smoothing. */
  readonly raw: Values;
}

export interface MetricChart {
  readonly metric: string;
  readonly lines: readonly ChartLine[];
  /** All places of the lines, in order. */
  readonly places: readonly number[];
  /** The lines' values at them. */
  readonly values: readonly Values[];
  readonly raw: readonly Values[];
}

/** Return the charts of some runs; validation is never smoothed with training, nor one run with another. */
export function chartsOf(models: readonly RunModel[], { x, smoothing }: ViewSettings): MetricChart[] {
  const curves = models.map((model) => curvesOf(model, x));
  return metricNames(curves.flat()).map((metric) => {
    const lines = curves.flatMap((own, run) => own.filter((curve) => curve.metric === metric).map((curve) => lineOf(curve, run, smoothing)));
    const { places, values } = onOneAxis(lines);
    return { metric, lines, places, values, raw: onOneAxis(lines.map((line) => ({ places: line.places, values: line.raw }))).values };
  });
}

function lineOf({ places, values, split }: MetricCurve, run: number, weight: number): ChartLine {
  return { run, split, places, raw: values, values: smoothed(values, weight) };
}

/** Return from where to where the charts go; null where they have no place. */
export function extentOf(charts: readonly MetricChart[]): Range | null {
  const ends = charts.filter(({ places }) => places.length > 0).flatMap(({ places }) => [places[0]!, places.at(-1)!]);
  return ends.length === 0 ? null : [Math.min(...ends), Math.max(...ends)];
}

/** Return where an axis of values begins and ends.
 *
 * @param values those in sight.
 * @param isLog of a logarithmic axis, on which zero and below have no place.
 */
export function valueRange(metric: string, values: readonly (number | null)[], isLog: boolean): Range {
  let [least, greatest] = [Infinity, -Infinity];
  for (const value of values) {
    if (value !== null && (!isLog || value > 0)) {
      least = Math.min(least, value);
      greatest = Math.max(greatest, value);
    }
  }
  if (least > greatest) {
    return isLog ? [0.1, 1] : [0, 1];
  }
  if (isLog) {
    const margin = Math.max((greatest / least) ** 0.06, 1.1);
    return [least / margin, greatest * margin];
  }
  const margin = (greatest - least) * 0.08 || Math.abs(greatest) * 0.08 || 1;
  const isZeroNear = least >= 0 && (metric === RATE || least < greatest * 0.6);
  return [isZeroNear ? 0 : least - margin, greatest + margin];
}
