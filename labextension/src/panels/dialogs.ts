// What is asked before something is ended, and what is said where that fails.
import { Dialog, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Widget } from '@lumino/widgets';
import { sentence } from '../model/server';

/** Ask whether something is meant that cannot be undone; `label` is the button's that does it. */
export async function isMeant(title: string, body: string | Widget, label: string): Promise<boolean> {
  const { button } = await showDialog({
    title,
    body,
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label })],
    // Enter must not end what cells defined.
    defaultButton: 0,
  });
  return button.accept;
}

/** Say why something that was asked for was not done. */
export async function showProblem(trans: TranslationBundle, error: unknown): Promise<void> {
  await showDialog({ title: trans.__('That did not work'), body: sentence(error), buttons: [Dialog.okButton()] });
}
