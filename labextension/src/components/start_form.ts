// The form that starts ranks. What is typed is checked at once, and the line that will run is shown.
import { type ExportRequest, isQueue, type Place } from '../model/place';
import { attachLine } from '../model/kept';
import { type Device, exportOf, NOWHERE, planStart, START_FIELDS, type StartField, type StartFields, type StartPlan, type Surroundings } from '../model/start';
import type { Words } from '../model/words';
import { h, setAttribute, setText } from './dom';
import { number } from './format';
import { PlaceChoice, placeholders, type PlaceTexts } from './place_choice';

/** The fields that only a job has, and those that only other starts have. */
const OF_A_JOB: readonly StartField[] = ['nodes', 'perNode', 'time', 'partition'];
const OF_RANKS: readonly StartField[] = ['ranks', 'threads'];

export interface StartTexts extends PlaceTexts {
  /** For what is wrong, which depends on what is typed. */
  readonly trans: Words;
  readonly title: string;
  /** The labels of the fields. */
  readonly fields: Readonly<Record<StartField, string>>;
  /** Of a field that may stay empty. */
  readonly automatic: string;
  readonly devices: string;
  readonly noDevices: string;
  readonly share: string;
  readonly keep: string;
  readonly runs: string;
  readonly start: string;
  /** What the button does, in more words. */
  readonly startRanks: string;
  readonly more: string;
  readonly attach: string;
  readonly submit: string;
  readonly export: string;
  readonly free: (free: string, total: string) => string;
}

export class StartForm {
  readonly element: HTMLFormElement;
  private readonly inputs: Readonly<Record<StartField, HTMLInputElement>>;
  private readonly faults: Readonly<Record<StartField, HTMLElement>>;
  private readonly rows: Readonly<Record<StartField, HTMLElement>>;
  private readonly choice: PlaceChoice;
  private readonly deviceRow: HTMLElement;
  /** What few starts need. */
  private readonly more: HTMLDetailsElement;
  /** Beside the name of a cluster that runs. */
  private readonly attach: HTMLButtonElement;
  private readonly devices = h('div', { class: 'ddl-devices' });
  private readonly share = h('input', { type: 'checkbox' });
  private readonly keep = h('input', { type: 'checkbox' });
  private readonly shareLabel: HTMLElement;
  private readonly warning = h('p', { class: 'ddl-field-warning', role: 'status' });
  private readonly line = h('code', { class: 'ddl-start-line' });
  private readonly runs: HTMLElement;
  private readonly button: HTMLButtonElement;
  private readonly exports: HTMLButtonElement;
  private known: readonly Device[] = [];
  private around: Surroundings = NOWHERE;
  private boxes: HTMLInputElement[] = [];
  private isAble = true;

  /**
   * @param start called with the line to run.
   * @param exportJob called with what a job of the notebook is asked for with.
   * @param typed called with what the form holds, after each change.
   */
  constructor(
    private readonly texts: StartTexts,
    start: (line: string) => void,
    exportJob: (request: ExportRequest) => void,
    private readonly typed: (fields: StartFields) => void,
  ) {
    const input = (name: StartField): HTMLInputElement =>
      h('input', { type: 'text', inputmode: name === 'name' || name === 'time' || name === 'partition' ? 'text' : 'numeric', autocomplete: 'off', spellcheck: 'false' });
    this.inputs = byField(input);
    this.faults = byField((name) => h('p', { class: 'ddl-field-fault', id: `ddl-fault-${name}`, role: 'alert' }));
    this.rows = byField((name) =>
      h('div', { class: 'ddl-field' }, h('label', {}, h('span', {}, texts.fields[name]), this.inputs[name]), this.faults[name]),
    );
    this.choice = new PlaceChoice(texts);
    this.runs = h('p', { class: 'ddl-start-runs' });
    this.button = h('button', { type: 'submit', class: 'ddl-button ddl-primary' }, texts.start);
    this.exports = h('button', { class: 'ddl-button' }, texts.export);
    this.exports.addEventListener('click', () => exportJob(exportOf(this.fields())));
    this.shareLabel = h('label', { class: 'ddl-check' }, this.share, texts.share);
    this.deviceRow = h('fieldset', { class: 'ddl-field' }, h('legend', {}, texts.devices), this.devices, this.shareLabel);
    const { ranks, threads, name } = this.rows;
    this.attach = h('button', { class: 'ddl-button ddl-attach' }, texts.attach);
    this.attach.addEventListener('click', () => start(attachLine({ name: this.inputs.name.value.trim() })));
    name.append(this.attach);
    this.more = h(
      'details',
      { class: 'ddl-more' },
      h('summary', {}, texts.more),
      this.choice.element,
      this.deviceRow,
      threads,
      name,
      h('div', { class: 'ddl-field' }, h('label', { class: 'ddl-check' }, this.keep, texts.keep)),
      h('div', { class: 'ddl-start-buttons' }, this.exports),
    );
    this.element = h(
      'form',
      { class: 'ddl-start', 'aria-label': texts.title },
      ...OF_A_JOB.map((field) => this.rows[field]),
      h('div', { class: 'ddl-start-row' }, ranks, this.button),
      this.warning,
      this.runs,
      this.line,
      this.more,
    );
    this.element.addEventListener('input', () => this.check(true));
    this.element.addEventListener('submit', (event) => {
      event.preventDefault();
      const { line } = this.plan(this.fields());
      if (line !== null && this.isAble) {
        start(line);
      }
    });
    for (const name of START_FIELDS) {
      this.inputs[name].setAttribute('aria-describedby', `ddl-fault-${name}`);
    }
    this.showDevices([]);
  }

  fields(): StartFields {
    const chosen = this.known.filter((_, at) => this.boxes[at]?.checked === true).map(({ device }) => device);
    return {
      ...byField((name) => this.inputs[name].value),
      place: this.choice.chosen,
      gpus: chosen.length === this.known.length ? null : chosen,
      oversubscribe: this.share.checked,
      keep: this.keep.checked,
    };
  }

  /** Say what there is already. */
  place(around: Surroundings): void {
    this.around = around;
    this.check(false);
  }

  fill(fields: Partial<Record<StartField, string>>): void {
    for (const name of START_FIELDS) {
      this.inputs[name].value = fields[name] ?? this.inputs[name].value;
    }
    this.check(false);
  }

  /** Offer these places besides this host, and say why there are no others. */
  showPlaces(places: readonly Place[], problem: string): void {
    this.choice.show(places, problem);
    this.more.open ||= problem !== '';
    this.check(false);
  }

  focus(): void {
    this.inputs.ranks.focus();
  }

  /** Offer these devices. */
  showDevices(devices: readonly Device[]): void {
    const isSame = devices.length === this.known.length && devices.every(({ uuid }, at) => uuid === this.known[at]!.uuid);
    this.known = devices;
    if (!isSame || this.devices.childElementCount === 0) {
      this.boxes = devices.map(() => h('input', { type: 'checkbox', checked: '' }));
      const rows = devices.map((device, at) => {
        // There is little room, and all of them are NVIDIA's.
        const name = h('span', { class: 'ddl-device-name' }, `${device.index} ${device.name.replace(/^NVIDIA /, '')}`);
        const title = `${device.name}, ${device.uuid}`;
        return h('label', { class: 'ddl-check', title }, this.boxes[at]!, name, h('span', { class: 'ddl-device-memory' }));
      });
      this.devices.replaceChildren(...(rows.length > 0 ? rows : [h('p', { class: 'ddl-note' }, this.texts.noDevices)]));
      this.shareLabel.hidden = devices.length === 0;
    }
    for (const [at, device] of devices.entries()) {
      setText(this.devices.children[at]!.lastElementChild as HTMLElement, this.memory(device));
    }
    this.check(false);
  }

  /** Say where the line will run; an empty reason lets it. */
  allow(where: string, isAble: boolean): void {
    this.isAble = isAble;
    setText(this.runs, where);
    this.check(false);
  }

  private memory({ free_bytes: free, total_bytes: total }: Device): string {
    const gib = (bytes: number | null): string => number(bytes === null ? null : bytes / 2 ** 30);
    // Some devices do not report it.
    return total === 0 ? '' : this.texts.free(gib(free), gib(total));
  }

  /** How many ranks start on this host where no number is written. */
  private automaticRanks({ place, gpus }: StartFields): string {
    const { automatic } = this.texts;
    const devices = gpus?.length ?? this.known.length;
    return place === null ? String(devices || (this.around.host?.ranks ?? automatic)) : automatic;
  }

  private plan(fields: StartFields): StartPlan {
    return planStart(fields, this.known, this.around, this.texts.trans);
  }

  private check(isTyped: boolean): void {
    const fields = this.fields();
    const { errors, warning, line } = this.plan(fields);
    const isJob = isQueue(fields.place);
    const hints = { ...placeholders(fields.place, this.automaticRanks(fields)), threads: this.texts.automatic, name: this.around.proposed };
    for (const name of START_FIELDS) {
      this.rows[name].hidden = (isJob ? OF_RANKS : OF_A_JOB).includes(name);
      setAttribute(this.inputs[name], 'placeholder', hints[name]);
      setText(this.faults[name], errors[name] ?? '');
      setAttribute(this.inputs[name], 'aria-invalid', String(errors[name] !== undefined));
    }
    this.deviceRow.hidden = isJob || fields.place?.launcher === 'hosts';
    setText(this.button, isJob ? this.texts.submit : this.texts.start);
    setAttribute(this.button, 'aria-label', isJob ? this.texts.submit : this.texts.startRanks);
    // What is wrong is in sight.
    this.more.open ||= errors.threads !== undefined || errors.name !== undefined;
    this.attach.hidden = !this.around.taken.has(fields.name.trim());
    this.attach.disabled = !this.isAble;
    setText(this.warning, warning);
    setText(this.line, line ?? '');
    this.line.hidden = line === null;
    this.button.disabled = line === null || !this.isAble;
    this.exports.disabled = this.button.disabled;
    if (isTyped) {
      this.typed(fields);
    }
  }
}

function byField<T>(make: (name: StartField) => T): Record<StartField, T> {
  return Object.fromEntries(START_FIELDS.map((name) => [name, make(name)])) as Record<StartField, T>;
}
