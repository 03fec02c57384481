// One rank's outputs under a cell, as JupyterLab shows a cell's own: by the notebook's renderers, its sanitizer and its trust.
import { OutputAreaModel, SimplifiedOutputArea } from '@jupyterlab/outputarea';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { JSONObject } from '@lumino/coreutils';
import { Panel, Widget } from '@lumino/widgets';
import { h, setHidden, setText } from '../components/dom';
import { whole } from '../components/format';
import { keepTyping } from '../components/keys';
import type { RankOutput } from '../model/rank_outputs';
import { MAX_CHARACTERS, type RankOutputsModel } from '../model/rank_outputs_model';
import type { Rendering } from './panels';

export class RankOutputArea extends Panel {
  private readonly outputs: OutputAreaModel;
  private readonly note = h('p', { class: 'ddl-note', role: 'status' });
  /** By the id of a display, where it stands. */
  private readonly displays = new Map<string, number[]>();
  private isClearing = false;

  /** @param isTrusted whether the notebook's user trusts the cell's outputs. */
  constructor(
    private readonly model: RankOutputsModel,
    private readonly trans: TranslationBundle,
    rendermime: Rendering['registry'],
    isTrusted: boolean,
  ) {
    super();
    this.addClass('ddl-rank-output');
    this.node.setAttribute('role', 'tabpanel');
    this.node.setAttribute('aria-label', trans.__('Output of rank %1', model.rank));
    this.node.tabIndex = 0;
    keepTyping(this.node);
    this.outputs = new OutputAreaModel({ trusted: isTrusted });
    this.addWidget(new Widget({ node: this.note }));
    this.addWidget(new SimplifiedOutputArea({ model: this.outputs, rendermime }));
    model.added.connect((_, added) => this.show_(added));
    void model.readOn();
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.model.dispose();
      super.dispose();
      this.outputs.dispose();
    }
  }

  /** Read what the rank has shown since. */
  readOn(): void {
    void this.model.readOn();
  }

  private show_(added: readonly RankOutput[]): void {
    for (const output of added) {
      this.take(output);
    }
    const { model, trans } = this;
    const cut = trans.__('Text is shown up to %1 characters: the whole of it is in the log.', whole(MAX_CHARACTERS));
    const nothing = this.outputs.length === 0 ? trans.__('Rank %1 has shown nothing.', model.rank) : '';
    setText(this.note, model.problem !== '' ? model.problem : model.isCut ? cut : nothing);
    setHidden(this.note, this.note.textContent === '');
  }

  private take(output: RankOutput): void {
    switch (output.type) {
      case 'clear':
        this.outputs.clear(output.wait);
        this.isClearing = output.wait;
        if (!output.wait) {
          this.displays.clear();
        }
        break;
      case 'stream':
        this.add({ output_type: 'stream', name: output.name, text: output.text });
        break;
      case 'error':
        this.add({ output_type: 'error', ename: output.name, evalue: output.message, traceback: [...output.traceback] });
        break;
      case 'update':
        for (const at of this.displays.get(output.displayId ?? '') ?? []) {
          this.outputs.set(at, displayOf(output));
        }
        break;
      case 'display':
      case 'result': {
        const at = this.add(displayOf(output));
        if (output.displayId !== null) {
          this.displays.set(output.displayId, [...(this.displays.get(output.displayId) ?? []), at]);
        }
        break;
      }
    }
  }

  /** Add an output, which ends what waited to be cleared; return its place. */
  private add(output: JSONObject): number {
    if (this.isClearing) {
      this.isClearing = false;
      this.displays.clear();
    }
    return this.outputs.add(output) - 1;
  }
}

function displayOf({ data, metadata }: Extract<RankOutput, { readonly data: JSONObject }>): JSONObject {
  return { output_type: 'display_data', data, metadata };
}
