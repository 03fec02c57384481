// The words of the page that compares runs, for components that know nothing of translations.
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CurveTexts } from '../components/curve_chart';
import type { DifferenceTexts } from '../components/difference_table';
import type { DiffTexts } from '../components/diff_view';
import { clock, compact } from '../components/format';
import type { Section } from '../model/differences';
import type { Place } from '../model/metric_curves';

export function placeTexts(trans: TranslationBundle): Readonly<Record<Place, string>> {
  return { step: trans.__('step'), epoch: trans.__('epoch'), time: trans.__('time') };
}

export function curveTexts(trans: TranslationBundle, x: Place): CurveTexts {
  const at = {
    step: (place: string) => trans.__('step %1', place),
    epoch: (place: string) => trans.__('epoch %1', place),
    time: (place: string) => trans.__('after %1', place),
  };
  return {
    place: x === 'time' ? clock : (value) => compact(x === 'step' && Math.abs(value) < 1000 ? Math.round(value * 100) / 100 : value),
    at: at[x],
    validation: trans.__('validation'),
    keys: trans.__('Drag to zoom, double click for all. Keys: arrows move the crosshair, + and - zoom, Escape shows all.'),
  };
}

export function differenceTexts(trans: TranslationBundle): DifferenceTexts {
  const sections: Readonly<Record<Section['kind'], string>> = {
    run: trans.__('Run'),
    parameters: trans.__('Parameters'),
    options: trans.__('Options'),
    versions: trans.__('Versions'),
    figures: trans.__('Final figures'),
  };
  const rows: ReadonlyMap<string, string> = new Map([
    ['state', trans.__('state')],
    ['notebook', trans.__('notebook')],
    ['script', trans.__('script')],
    ['first line', trans.__('first line')],
    ['git commit', trans.__('git commit')],
    ['tags', trans.__('tags')],
    ['ranks', trans.__('ranks')],
    ['hosts', trans.__('hosts')],
    ['devices', trans.__('devices')],
    ['computes on', trans.__('computes on')],
    ['note', trans.__('note')],
    ['seconds', trans.__('took, in seconds')],
  ]);
  return {
    section: (kind) => sections[kind],
    // Of what is named by programs, the name itself.
    row: (name) => rows.get(name) ?? name,
    differs: trans.__('differs'),
    none: '–',
  };
}

export function diffTexts(trans: TranslationBundle): DiffTexts {
  return {
    same: trans.__('Both ran the same code.'),
    skipped: (count) => trans._n('%1 line is the same', '%1 lines are the same', count),
    more: (count) => trans._n('%1 more line', '%1 more lines', count),
    gone: trans.__('only in the first'),
    came: trans.__('only in the second'),
  };
}
