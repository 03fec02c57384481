// Asks for what a run's user says of it: its name, a note, tags.
import { Dialog, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';
import { h } from '../components/dom';
import { changeOf, type Label, labelText } from '../model/run_labels';
import type { RunRecord } from '../model/runs';
import { sentence, type Server } from '../model/server';

type Labelling = Pick<Server, 'run' | 'labelRun'>;

/** Ask for a label as long as the server refuses it; return why it could not be read, empty where it could. */
export async function askForLabel(server: Labelling, trans: TranslationBundle, run: string, label: Label): Promise<string> {
  let record: RunRecord;
  try {
    ({ record } = await server.run(run));
  } catch (error) {
    return sentence(error);
  }
  let [text, problem]: [string, string] = [labelText(record, label), ''];
  for (;;) {
    const answer = await ask(trans, record, label, text, problem);
    if (answer === null) {
      return '';
    }
    try {
      await server.labelRun(run, changeOf(record, label, answer));
      return '';
    } catch (error) {
      [text, problem] = [answer, sentence(error)];
    }
  }
}

/** Return what was written; null where it was cancelled. */
async function ask(trans: TranslationBundle, record: RunRecord, label: Label, text: string, problem: string): Promise<string | null> {
  const texts = {
    name: [trans.__('Rename the run'), trans.__('Name')],
    note: [trans.__('Note on the run'), trans.__('Note')],
    tags: [trans.__('Tags of the run'), trans.__('Tags, with spaces between them')],
  } as const;
  const [title, field] = texts[label];
  const { button, value } = await showDialog({
    title,
    body: new Field(field, record.run, text, problem, label === 'note'),
    buttons: [Dialog.cancelButton({ label: trans.__('Cancel') }), Dialog.okButton({ label: trans.__('Save') })],
    focusNodeSelector: 'input, textarea',
  });
  return button.accept ? (value ?? '') : null;
}

class Field extends Widget implements Dialog.IBodyWidget<string> {
  private readonly field: HTMLInputElement | HTMLTextAreaElement;

  constructor(label: string, run: string, text: string, problem: string, isLong: boolean) {
    super();
    this.addClass('ddl-label-dialog');
    this.field = isLong ? h('textarea', { rows: '5', class: 'jp-mod-styled' }) : h('input', { type: 'text', class: 'jp-mod-styled' });
    this.field.value = text;
    this.node.append(h('p', {}, run), h('label', {}, label, this.field), h('p', { role: 'alert', class: 'ddl-label-problem' }, problem));
  }

  getValue(): string {
    return this.field.value;
  }
}
