// The form that starts ranks. What is typed is checked at once, and the line that will run is shown.
import { type Device, NOWHERE, planStart, type StartField, type StartFields, type Surroundings } from '../model/start';
import { h, setAttribute, setText } from './dom';
import { number } from './format';

export interface StartTexts {
  readonly title: string;
  readonly ranks: string;
  readonly ranksHint: string;
  readonly threads: string;
  readonly threadsHint: string;
  readonly name: string;
  readonly devices: string;
  readonly noDevices: string;
  readonly share: string;
  readonly keep: string;
  readonly runs: string;
  readonly start: string;
  readonly free: (free: string, total: string) => string;
}

export class StartForm {
  readonly element: HTMLFormElement;
  private readonly inputs: Readonly<Record<StartField, HTMLInputElement>>;
  private readonly faults: Readonly<Record<StartField, HTMLElement>>;
  private readonly devices = h('div', { class: 'ddl-devices' });
  private readonly share = h('input', { type: 'checkbox' });
  private readonly keep = h('input', { type: 'checkbox' });
  private readonly shareLabel: HTMLElement;
  private readonly warning = h('p', { class: 'ddl-field-warning', role: 'status' });
  private readonly line = h('code', { class: 'ddl-start-line' });
  private readonly runs: HTMLElement;
  private readonly button: HTMLButtonElement;
  private known: readonly Device[] = [];
  private around: Surroundings = NOWHERE;
  private boxes: HTMLInputElement[] = [];
  private isAble = true;

  /**
   * @param start called with the line to run.
   * @param typed called with what the form holds, after each change.
   */
  constructor(
    private readonly texts: StartTexts,
    start: (line: string) => void,
    private readonly typed: (fields: StartFields) => void,
  ) {
    const input = (placeholder: string, mode: string): HTMLInputElement =>
      h('input', { type: 'text', placeholder, inputmode: mode, autocomplete: 'off', spellcheck: 'false' });
    this.inputs = {
      ranks: input(texts.ranksHint, 'numeric'),
      threads: input(texts.threadsHint, 'numeric'),
      name: input(NOWHERE.proposed, 'text'),
    };
    const fault = (name: string): HTMLElement => h('p', { class: 'ddl-field-fault', id: `ddl-fault-${name}`, role: 'alert' });
    this.faults = { ranks: fault('ranks'), threads: fault('threads'), name: fault('name') };
    this.runs = h('p', { class: 'ddl-start-runs' });
    this.button = h('button', { type: 'submit', class: 'ddl-button ddl-primary' }, texts.start);
    this.shareLabel = h('label', { class: 'ddl-check' }, this.share, texts.share);
    const row = (name: StartField, label: string): HTMLElement =>
      h('div', { class: 'ddl-field' }, h('label', {}, h('span', {}, label), this.inputs[name]), this.faults[name]);
    this.element = h(
      'form',
      { class: 'ddl-start', 'aria-label': texts.title },
      row('ranks', texts.ranks),
      this.warning,
      h('fieldset', { class: 'ddl-field' }, h('legend', {}, texts.devices), this.devices, this.shareLabel),
      row('threads', texts.threads),
      row('name', texts.name),
      h('div', { class: 'ddl-field' }, h('label', { class: 'ddl-check' }, this.keep, texts.keep)),
      this.runs,
      this.line,
      this.button,
    );
    this.element.addEventListener('input', () => this.check(true));
    this.element.addEventListener('submit', (event) => {
      event.preventDefault();
      const { line } = planStart(this.fields(), this.known, this.around);
      if (line !== null && this.isAble) {
        start(line);
      }
    });
    for (const [name, element] of Object.entries(this.inputs)) {
      element.setAttribute('aria-describedby', `ddl-fault-${name}`);
    }
    this.showDevices([]);
  }

  fields(): StartFields {
    const chosen = this.known.filter((_, at) => this.boxes[at]?.checked === true).map(({ device }) => device);
    return {
      ranks: this.inputs.ranks.value,
      gpus: chosen.length === this.known.length ? null : chosen,
      threads: this.inputs.threads.value,
      name: this.inputs.name.value,
      oversubscribe: this.share.checked,
      keep: this.keep.checked,
    };
  }

  /** Say what there is already. */
  place(around: Surroundings): void {
    this.around = around;
    setAttribute(this.inputs.name, 'placeholder', around.proposed);
    this.check(false);
  }

  fill(fields: Partial<Pick<StartFields, StartField>>): void {
    for (const name of ['ranks', 'threads', 'name'] as const) {
      this.inputs[name].value = fields[name] ?? this.inputs[name].value;
    }
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

  private check(isTyped: boolean): void {
    const fields = this.fields();
    const { errors, warning, line } = planStart(fields, this.known, this.around);
    for (const name of ['ranks', 'threads', 'name'] as const) {
      setText(this.faults[name], errors[name] ?? '');
      setAttribute(this.inputs[name], 'aria-invalid', String(errors[name] !== undefined));
    }
    setText(this.warning, warning);
    setText(this.line, line ?? '');
    this.line.hidden = line === null;
    this.button.disabled = line === null || !this.isAble;
    if (isTyped) {
      this.typed(fields);
    }
  }
}
