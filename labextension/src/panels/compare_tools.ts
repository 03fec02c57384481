// What the charts of compared runs show, and the files that they become.
import type { TranslationBundle } from '@jupyterlab/translation';
import { downloadIcon } from '@jupyterlab/ui-components';
import { h, setText } from '../components/dom';
import { type CurveView, MOST_SMOOTHING } from '../model/curve_view';
import { PLACES } from '../model/metric_curves';
import { placeTexts } from './compare_texts';
import { iconButton } from './icon_button';
import { showMenu } from './popup_menu';

export const FILES = ['CSV', 'PNG', 'SVG'] as const;
export type FileKind = (typeof FILES)[number];

/** The slider has as many places. */
const SLIDER_STEPS = 100;

export class CompareTools {
  readonly element: HTMLElement;
  private readonly x: HTMLSelectElement;
  private readonly log = h('input', { type: 'checkbox' });
  private readonly slider = h('input', { type: 'range', min: '0', max: String(SLIDER_STEPS), step: '1' });
  private readonly weight = h('output', {});
  private readonly all: HTMLButtonElement;

  /** @param save makes a file of what is shown. */
  constructor(
    trans: TranslationBundle,
    private readonly view: CurveView,
    save: (kind: FileKind) => void,
  ) {
    const words = placeTexts(trans);
    this.x = h('select', { 'aria-label': trans.__('Over'), title: trans.__('Over') }, ...PLACES.map((place) => h('option', { value: place }, words[place])));
    this.all = h('button', { class: 'ddl-button' }, trans.__('Show all'));
    const files = iconButton(downloadIcon, trans.__('Save'), trans.__('Save the curves, or the charts'));
    const choices = FILES.map((kind) => ({ label: trans.__('Save as %1', kind), act: () => save(kind) }));
    files.addEventListener('click', () => {
      const { left, bottom } = files.getBoundingClientRect();
      showMenu(choices, left, bottom, files);
    });
    this.element = h(
      'div',
      { class: 'ddl-compare-tools', role: 'toolbar', 'aria-label': trans.__('Curves') },
      this.x,
      h('label', {}, this.log, trans.__('log axis')),
      h('label', {}, trans.__('smoothing'), this.slider, this.weight),
      this.all,
      files,
    );
    this.x.addEventListener('change', () => view.set({ x: PLACES.find((place) => place === this.x.value) ?? 'step' }));
    this.log.addEventListener('change', () => view.set({ isLog: this.log.checked }));
    this.slider.addEventListener('input', () => view.set({ smoothing: weightOf(Number(this.slider.value)) }));
    this.all.addEventListener('click', () => view.zoomTo(null));
    this.update();
  }

  /** Show what is set. */
  update(): void {
    const { settings, range } = this.view;
    this.x.value = settings.x;
    this.log.checked = settings.isLog;
    this.slider.value = String(Math.round((1 - Math.sqrt(1 - settings.smoothing / MOST_SMOOTHING)) * SLIDER_STEPS));
    setText(this.weight, settings.smoothing.toFixed(2));
    this.all.disabled = range === null;
  }
}

/** The weight at a slider's place: finer where it is great, for there it makes the most difference. */
function weightOf(place: number): number {
  const share = place / SLIDER_STEPS;
  return Number((MOST_SMOOTHING * (1 - (1 - share) ** 2)).toFixed(4));
}
