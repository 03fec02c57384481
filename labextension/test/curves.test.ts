import { describe, expect, it } from 'vitest';
import { change, onOneAxis, valueAt } from '../src/model/compare';
import { csvOf } from '../src/model/curve_csv';
import { type Drawing, escaped, svgOf } from '../src/model/curve_svg';
import { CurveView, settingsOf } from '../src/model/curve_view';
import type { MetricsSample } from '../src/model/events';
import { chartsOf, extentOf, valueRange } from '../src/model/metric_charts';
import { curvesOf, finalValue, metricNames, RATE, splitName } from '../src/model/metric_curves';
import { parseEvent } from '../src/model/parse';
import { RunModel } from '../src/model/run';
import { smoothed } from '../src/model/smoothing';
import { logTicksOf, ticksOf } from '../src/model/ticks';

/** A run of two epochs of four steps, a step a second; each epoch ends half a second after its last sample. */
function trained({ slower = 1, epochs = true, ranks = 1 } = {}): RunModel {
  const model = new RunModel();
  model.handle({ type: 'run_started', run: 'r', ranks: [...Array(ranks).keys()], world_size: ranks, at_s: 0 });
  for (let step = 1; step <= 8; step++) {
    for (let rank = 0; rank < ranks; rank++) {
      const more = { cpu_pct: 50, rss_bytes: 1, step, steps: 1, step_s: 1, samples_per_s: 10 / slower, epoch: step <= 4 ? 0 : 1 };
      const figures = { loss: slower / step, metrics: { accuracy: step / 10 } };
      model.handle(parseEvent({ type: 'metrics', run: 'r', rank, at_s: 100 + step, ...more, ...figures }) as MetricsSample);
    }
    if (epochs && step % 4 === 0) {
      const metrics = { loss: slower / step, val_loss: 2 / step, accuracy: step / 10 };
      model.handle({ type: 'epoch_ended', run: 'r', rank: 0, at_s: 100.5 + step, epoch: step / 4 - 1, step, metrics, is_last: false, n: 0 });
    }
  }
  return model;
}

describe('smoothing', () => {
  // By hand: with a weight of 0.5 the first is itself, the second (1·1 + 2·2)/3, the third (1·1 + 2·2 + 4·4)/7.
  it.each([
    [0, [1, 2, 4], [1, 2, 4]],
    [0.5, [1, 2, 4], [1, 5 / 3, 3]],
    [0.9, [5, 5, 5], [5, 5, 5]],
    [0.5, [1, null, 2], [1, null, 5 / 3]],
    [0.5, [1, NaN, 2], [1, NaN, 5 / 3]],
    [0.99, [3], [3]],
    [0.5, [], []],
  ])('with the weight %d', (weight, values, expected) => {
    const found = smoothed(values, weight);
    expect(found.map((value) => (value === null ? null : Number(value.toFixed(9))))).toEqual(
      expected.map((value) => (value === null ? null : Number(value.toFixed(9)))),
    );
  });
});

describe('the curves of a run', () => {
  it('know training from validation by their names', () => {
    expect(splitName('val_loss')).toEqual({ metric: 'loss', split: 'validation' });
    expect(splitName('val_')).toEqual({ metric: 'val_', split: 'training' });
    expect(splitName('accuracy')).toEqual({ metric: 'accuracy', split: 'training' });
  });

  it('are over steps as sampled, and validation where its epoch ended', () => {
    const curves = curvesOf(trained(), 'step');
    const of = (metric: string, split: string) => curves.find((one) => one.metric === metric && one.split === split)!;
    expect(of('loss', 'training').places).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(of('loss', 'training').values[1]).toBe(0.5);
    expect(of('loss', 'validation')).toMatchObject({ places: [4, 8], values: [0.5, 0.25] });
    expect(of(RATE, 'training').values.at(-1)).toBe(10);
    expect(metricNames(curves)).toEqual(['loss', 'accuracy', RATE]);
  });

  it('are over epochs what Keras prints at the end of each', () => {
    const curves = curvesOf(trained({ ranks: 2 }), 'epoch');
    const of = (metric: string, split: string) => curves.find((one) => one.metric === metric && one.split === split)!;
    expect(of('loss', 'training')).toMatchObject({ places: [1, 2], values: [0.25, 0.125] });
    expect(of('loss', 'validation')).toMatchObject({ places: [1, 2], values: [0.5, 0.25] });
    expect(of(RATE, 'training')).toMatchObject({ places: [1, 2], values: [20, 20] });
  });

  it('follow one another where a cell trains several times', () => {
    const model = new RunModel();
    model.handle({ type: 'run_started', run: 'r', ranks: [0], world_size: 1, at_s: 0 });
    // As the ranks count (jupyter_ddl/training/fit/telemetry.py): each training has its own epochs, and steps count on.
    for (const [step, epoch, isLast] of [[1, 0, true], [2, 0, false], [3, 1, true], [4, 0, true]] as const) {
      const more = { cpu_pct: 50, rss_bytes: 1, step, steps: 1, step_s: 1, samples_per_s: 10, epoch, loss: 1 / step };
      model.handle(parseEvent({ type: 'metrics', run: 'r', rank: 0, at_s: 100 + step, ...more }) as MetricsSample);
      model.handle({ type: 'epoch_ended', run: 'r', rank: 0, at_s: 100.5 + step, epoch, step, metrics: { loss: 1 / step, val_loss: 2 / step }, is_last: isLast, n: 0 });
    }
    for (const x of ['step', 'epoch'] as const) {
      const losses = curvesOf(model, x).filter(({ metric }) => metric === 'loss');
      expect(losses.map(({ split, places, values }) => [split, places, values])).toEqual([
        ['training', [1, 2, 3, 4], [1, 1 / 2, 1 / 3, 1 / 4]],
        ['validation', [1, 2, 3, 4], [2, 1, 2 / 3, 1 / 2]],
      ]);
    }
  });

  it('are over seconds since the first sample', () => {
    const loss = curvesOf(trained(), 'time').find(({ metric, split }) => metric === 'loss' && split === 'validation')!;
    expect(loss.places).toEqual([3.5, 7.5]);
  });

  it('of a run that reports no epochs are its newest samples in each', () => {
    const loss = curvesOf(trained({ epochs: false }), 'epoch').find(({ metric }) => metric === 'loss')!;
    expect(loss).toMatchObject({ places: [1, 2], values: [0.25, 0.125] });
  });

  it('count on where a cell trains again', () => {
    const model = trained();
    model.handle({ type: 'epoch_ended', run: 'r', rank: 1, at_s: 120, epoch: 0, step: 4, metrics: { loss: 9 }, is_last: false, n: 0 });
    model.handle({ type: 'epoch_ended', run: 'r', rank: 0, at_s: 120, epoch: 0, step: 4, metrics: { loss: 3 }, is_last: false, n: 0 });
    expect(model.epochs.list.map(({ epoch }) => epoch)).toEqual([0, 1, 2]);
    expect(finalValue(model, 'loss')).toBe(3);
    expect(finalValue(model, 'val_loss')).toBeNull();
  });
});

describe('the charts of several runs', () => {
  it('have a metric each, with the lines of all runs on one axis', () => {
    const charts = chartsOf([trained(), trained({ slower: 2, epochs: false })], { x: 'epoch', isLog: false, smoothing: 0 });
    expect(charts.map(({ metric }) => metric)).toEqual(['loss', 'accuracy', RATE]);
    expect(charts[0]!.lines.map(({ run, split }) => `${run} ${split}`)).toEqual(['0 training', '0 validation', '1 training']);
    expect(charts[0]!.values).toEqual([[0.25, 0.125], [0.5, 0.25], [0.5, 0.25]]);
    expect(extentOf(charts)).toEqual([1, 2]);
    expect(extentOf([])).toBeNull();
  });

  it('are smoothed line by line, and keep what was', () => {
    const [loss] = chartsOf([trained()], { x: 'epoch', isLog: false, smoothing: 0.5 });
    expect(loss!.values[0]![1]).toBeCloseTo((0.25 + 2 * 0.125) / 3, 12);
    expect(loss!.raw[0]).toEqual([0.25, 0.125]);
  });

  it.each([
    [[1, 2, null], false, [0, 2.08]],
    [[99, 100], false, [98.92, 100.08]],
    [[], false, [0, 1]],
    [[0, -1], true, [0.1, 1]],
  ])('%j have an axis (logarithmic: %s)', (values, isLog, expected) => {
    const [low, high] = valueRange('loss', values, isLog);
    expect([low, high].map((end) => Number(end.toFixed(6)))).toEqual(expected);
  });

  it('a logarithmic axis leaves out what has no place there', () => {
    const [low, high] = valueRange('loss', [0, -5, 0.01, 10], true);
    expect(low).toBeGreaterThan(0);
    expect(low).toBeLessThan(0.01);
    expect(high).toBeGreaterThan(10);
  });
});

describe('one axis', () => {
  it('has all places in order', () => {
    const curve = (places: number[], values: (number | null)[]) => ({ places, values });
    expect(onOneAxis([curve([1, 3], [10, 30]), curve([2, 3, 4], [2, null, 4])])).toEqual({
      places: [1, 2, 3, 4],
      values: [[10, null, 30, null], [null, 2, null, 4]],
    });
    expect(onOneAxis([])).toEqual({ places: [], values: [] });
  });

  it('has the value that is nearest, and none beyond the ends', () => {
    const curve = { places: [1, 2, 4], values: [10, 20, 40] };
    expect([0, 0.5, 1.4, 1.6, 3.5, 4.7, 9].map((x) => valueAt(curve, x))).toEqual([null, 10, 10, 20, 40, 40, null]);
    expect(valueAt({ places: [], values: [] }, 1)).toBeNull();
  });

  it.each([[1, 2, 1], [0, 1, null], [2, 1, -0.5], [null, 1, null]])('a change from %s to %s', (first, other, expected) => {
    expect(change(first, other)).toBe(expected);
  });
});

describe('what all charts of a page share', () => {
  it('zooms about the crosshair and within what there is', () => {
    const view = new CurveView();
    view.zoom('in');
    expect(view.shown).toBeNull();
    view.extent = [0, 100];
    view.move(20);
    view.zoom('in');
    expect(view.range).toEqual([10, 60]);
    view.zoom('out');
    view.zoom('out');
    expect(view.range).toBeNull();
    view.zoomTo([5, 5]);
    expect(view.range).toBeNull();
  });

  it('moves the crosshair along the places that are in sight', () => {
    const view = new CurveView();
    view.extent = [1, 9];
    const places = [1, 3, 5, 9];
    const walked = [1, 1, -1, 10].map((steps) => {
      view.moveBy(steps, places);
      return view.cursor;
    });
    expect(walked).toEqual([1, 3, 1, 9]);
    view.move(4);
    view.moveBy(-1, places);
    expect(view.cursor).toBe(3);
    view.move(4);
    view.moveBy(1, places);
    expect(view.cursor).toBe(5);
    view.move(null);
    view.moveBy(-1, places);
    expect(view.cursor).toBe(9);
  });

  it('forgets both where the axis is another one', () => {
    const view = new CurveView();
    view.extent = [0, 10];
    view.zoomTo([1, 2]);
    view.move(1);
    view.set({ x: 'time' });
    expect([view.range, view.cursor]).toEqual([null, null]);
  });

  it.each([
    [{ x: 'epoch', isLog: true, smoothing: 0.5 }, { x: 'epoch', isLog: true, smoothing: 0.5 }],
    [{ x: 'parsecs', smoothing: 7 }, { x: 'step', isLog: false, smoothing: 0.99 }],
    [null, { x: 'step', isLog: false, smoothing: 0 }],
  ])('comes back from %j', (given, expected) => {
    expect(settingsOf(given)).toEqual(expected);
  });
});

describe('as a table', () => {
  it('has a line for each value, with quotes where they are needed', () => {
    const lines = csvOf([{ name: 'a "b", c', model: trained() }]).split('\r\n');
    expect(lines[0]).toBe('run,metric,split,step,epoch,time_s,value');
    expect(lines).toContain('"a ""b"", c",loss,validation,4,1,3.5,0.5');
    expect(lines).toContain('"a ""b"", c",loss,training,3,1,2.5,0.3333333333333333');
    expect(lines).toContain('"a ""b"", c",loss,training,8,2,7.5,0.125');
    expect(lines.filter((line) => line.includes(RATE)).length).toBe(8);
    expect(lines.at(-1)).toBe('');
  });
});

describe('as a picture', () => {
  const charts = chartsOf([trained()], { x: 'step', isLog: false, smoothing: 0.5 });
  const drawing: Drawing = {
    charts,
    names: ['<a & "b">\u0000'],
    looks: [{ colour: '#123456', dashes: { training: [], validation: [6, 4] } }],
    range: [1, 8],
    isLog: true,
    isSmoothed: true,
    axis: 'step',
    training: 'training',
    validation: 'validation',
    colours: { text: '#000', faint: '#555', grid: '#ddd', background: '#fff' },
    place: String,
    value: String,
  };

  it('is lines and escaped text', () => {
    const { svg, width, height } = svgOf(drawing);
    expect(svg).toMatch(/<text [^>]*>&lt;a &amp; &quot;b&quot;&gt;<\/text>/);
    expect(svg).not.toMatch(/<image|<a &|\u0000|NaN|Infinity|undefined/);
    // Of each line, and faint behind it, what was measured.
    expect(svg.match(/opacity="0.3"/g)!.length).toBe(charts.reduce((sum, { lines }) => sum + lines.length, 0));
    expect(svg).toContain('stroke-dasharray="6 4"');
    expect(svg).toContain(`viewBox="0 0 ${width} ${height}"`);
    for (const { metric } of charts) {
      expect(svg).toContain(`>${metric}</text>`);
    }
  });

  it('has a place for each value, the first at the left', () => {
    const { svg } = svgOf({ ...drawing, isLog: false, isSmoothed: false, charts: [charts[0]!] });
    const path = /clip-path="url\(#clip-0\)"><path d="([^"]+)"/.exec(svg)![1]!;
    const points = path.split(/[ML]/).slice(1).map((point) => point.split(' ').map(Number));
    expect(points.length).toBe(8);
    expect(points[0]![0]).toBe(56);
    expect(points.at(-1)![0]).toBe(446);
    expect(points[0]![1]).toBeLessThan(points.at(-1)![1]!);
  });

  it('escapes what ends a text, and leaves out what XML cannot hold', () => {
    expect(escaped('a<b>&"\u0001\ud800x\ud83d\ude00')).toBe('a&lt;b&gt;&amp;&quot;x\ud83d\ude00');
  });
});

it.each([
  [0, 1, 5, [0, 0.2, 0.4, 0.6, 0.8, 1]],
  [0, 0.3, 3, [0, 0.1, 0.2, 0.3]],
  [3, 97, 5, [20, 40, 60, 80]],
  [5, 5, 5, [5]],
])('ticks from %d to %d', (from, to, wished, expected) => {
  expect(ticksOf(from, to, wished)).toEqual(expected);
});

it.each([
  [0.001, 10, [0.001, 0.01, 0.1, 1, 10]],
  [0.3, 3, [0.5, 1, 2]],
  [0.58, 1.05, [0.6, 0.8, 1]],
])('logarithmic ticks from %d to %d', (from, to, expected) => {
  expect(logTicksOf(from, to)).toEqual(expected);
});
