// Runs' figures as a table, in long form: what pandas, R and spreadsheets read. No DOM.
import type { Epoch } from './epochs';
import { RATE, type Split, splitName } from './metric_curves';
import type { RunModel } from './run';

const COLUMNS = ['run', 'metric', 'split', 'step', 'epoch', 'time_s', 'value'] as const;
/** A text that stands for itself; others are put in quotes. Source: RFC 4180, section 2. */
const PLAIN = /^[^",\r\n]*$/;

interface Row {
  readonly metric: string;
  readonly split: Split;
  readonly step: number;
  /** From 1, as in Keras's own lines: the one that ended, or is under way. */
  readonly epoch: number | null;
  /** Since the first sample. */
  readonly time_s: number;
  readonly value: number;
}

export interface NamedRun {
  readonly name: string;
  readonly model: RunModel;
}

/** Return a table of all curves as they are, not smoothed. Lines end as the rule for such files has it. */
export function csvOf(runs: readonly NamedRun[]): string {
  const lines = runs.flatMap(({ name, model }) =>
    rowsOf(model).map(({ metric, split, step, epoch, time_s, value }) =>
      [name, metric, split, step, epoch ?? '', Number(time_s.toFixed(3)), value].map((cell) => quoted(String(cell))).join(','),
    ),
  );
  return [COLUMNS.join(','), ...lines, ''].join('\r\n');
}

function quoted(text: string): string {
  return PLAIN.test(text) ? text : `"${text.replaceAll('"', '""')}"`;
}

function rowsOf(model: RunModel): Row[] {
  const { curves, epochs } = model;
  const begin = Number.isNaN(curves.time.origin) ? 0 : curves.time.origin;
  const ofEpochs = epochs.list.flatMap(({ epoch, step, at_s, metrics }) =>
    Object.entries(metrics).map(([name, value]): Row => ({ ...splitName(name), step, epoch: epoch + 1, time_s: at_s - begin, value })),
  );
  const isValidated = new Set(ofEpochs.filter(({ split }) => split === 'validation').map(({ metric }) => metric));
  const seconds = curves.time.places();
  const steps = curves.stepOverTime.means();
  const sampled = [...curves.metricsOverTime].flatMap(([name, means]) => {
    const named = splitName(name);
    // What is known of each epoch is not sampled too.
    const isKnown = named.split === 'validation' && isValidated.has(named.metric);
    return isKnown ? [] : rowsOver(means.means(), named, seconds, steps, epochs.list, begin);
  });
  const { rates, settled } = model.ratesOverTime();
  const rate = rowsOver(rates.total.slice(0, settled), { metric: RATE, split: 'training' }, seconds, steps, epochs.list, begin);
  return [...sampled, ...ofEpochs, ...rate].sort(
    (a, b) => compare(a.metric, b.metric) || compare(a.split, b.split) || a.time_s - b.time_s,
  );
}

function rowsOver(
  values: readonly (number | null)[],
  named: { readonly metric: string; readonly split: Split },
  seconds: Float64Array,
  steps: readonly (number | null)[],
  epochs: readonly Epoch[],
  begin: number,
): Row[] {
  let ended = 0;
  return values.flatMap((value, bin): Row[] => {
    const time_s = seconds[bin]!;
    while (ended < epochs.length && epochs[ended]!.at_s - begin < time_s) {
      ended++;
    }
    const step = steps[bin] ?? null;
    // A rate covers the time before its sample too, when no step ended.
    if (value === null || step === null) {
      return [];
    }
    const epoch = epochs.length === 0 ? null : epochs[Math.min(ended, epochs.length - 1)]!.epoch + 1;
    return [{ ...named, step: Math.round(step), epoch, time_s, value }];
  });
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
