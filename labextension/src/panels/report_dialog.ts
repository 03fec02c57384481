// Shows what is in the file for support of a run, and downloads it.
import { Dialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';
import { h, setHidden, setText } from '../components/dom';
import { save } from '../components/download';
import { size } from '../components/format';
import { ReportModel } from '../model/report_model';
import type { Server } from '../model/server';

/** Show it, and download it where that is wished. */
export async function offerReport(server: Pick<Server, 'report'>, run: string, trans: TranslationBundle): Promise<void> {
  const model = new ReportModel(server, run);
  const dialog = new Dialog({
    title: trans.__('Report for support'),
    body: new ReportBody(model, trans),
    buttons: [Dialog.cancelButton({ label: trans.__('Cancel') }), Dialog.okButton({ label: trans.__('Download') })],
    defaultButton: 0,
  });
  const accept = dialog.node.querySelector<HTMLButtonElement>('button.jp-mod-accept');
  const enable = (): void => {
    if (accept !== null) {
      accept.disabled = model.report === null;
    }
  };
  model.changed.connect(enable);
  void model.read(false);
  const { button } = await dialog.launch();
  model.changed.disconnect(enable);
  const { report } = model;
  if (button.accept && report !== null) {
    const bytes = Uint8Array.from(atob(report.zip), (character) => character.charCodeAt(0));
    save(report.file, new Blob([bytes], { type: 'application/zip' }));
  }
}

class ReportBody extends Widget {
  private readonly rows = h('tbody');
  private readonly table: HTMLElement;
  private readonly state = h('p', { role: 'status' });

  constructor(
    private readonly model: ReportModel,
    private readonly trans: TranslationBundle,
  ) {
    super();
    this.addClass('ddl-report-dialog');
    const box = h('input', { type: 'checkbox' });
    box.addEventListener('change', () => void model.read(box.checked));
    const code = h('label', { class: 'ddl-check' }, box, trans.__('with the cell’s code'));
    const head = [trans.__('Part'), trans.__('Size'), trans.__('What it is')].map((text) => h('th', { scope: 'col' }, text));
    this.table = h('table', {}, h('thead', {}, h('tr', {}, ...head)), this.rows);
    const note = h('p', {}, trans.__('What programs printed is in it as it is. Names of hosts and users are not left out; variables and parameters named like a token, a password or a key are.'));
    // A scroll bar that no key reaches keeps people out.
    const scroll = h('div', { class: 'ddl-report-parts', tabindex: '0', role: 'region', 'aria-label': trans.__('What is in it') }, this.table);
    this.node.append(code, this.state, scroll, note);
    model.changed.connect(this.draw, this);
    this.draw();
  }

  private draw(): void {
    const { trans } = this;
    const { report, problem } = this.model;
    const waits = trans.__('The server’s host is being examined, which takes some seconds…');
    setText(this.state, report === null ? problem || waits : sizeText(trans, report.parts.length, report.zip.length));
    setHidden(this.table, report === null);
    const rows = (report?.parts ?? []).map(({ name, bytes, note }) =>
      h('tr', {}, h('td', {}, name), h('td', {}, size(bytes)), h('td', {}, note)),
    );
    this.rows.replaceChildren(...rows);
  }
}

/** Return how many parts there are and how much is downloaded; four characters of base64 are three bytes. */
function sizeText(trans: TranslationBundle, parts: number, characters: number): string {
  return trans._n('%1 part, %2 to download', '%1 parts, %2 to download', parts, size((characters * 3) / 4));
}
