// TensorBoard in the main area: a frame with what the Jupyter server serves.
import { IFrame } from '@jupyterlab/ui-components';
import type { TranslationBundle } from '@jupyterlab/translation';
import { PanelLayout, Widget } from '@lumino/widgets';
import { h, setText } from '../components/dom';
import { followTheme } from '../components/theme';
import { type BoardOf, sentence } from '../model/server';

/** Where TensorBoard's page keeps its settings. Source: tensorboard 2.21, webapp/persistent_settings */
const SETTINGS = '_tb_global_settings';
const RELOADS = JSON.stringify({ autoReload: true, autoReloadPeriodInMs: 30_000 });

export class BoardPage extends Widget {
  private readonly state: HTMLElement;
  private readonly unfollow: () => void;

  /** @param open has the server start it, and returns its address. */
  constructor(
    readonly of: BoardOf,
    open: () => Promise<string>,
    trans: TranslationBundle,
  ) {
    super();
    this.addClass('ddl-panel');
    this.addClass('ddl-board');
    this.state = h('p', { class: 'ddl-hint', role: 'status' }, trans.__('TensorBoard starts…'));
    this.layout = new PanelLayout();
    this.node.append(this.state);
    this.unfollow = followTheme(this.node, () => undefined);
    void this.open(open);
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.unfollow();
      super.dispose();
    }
  }

  private async open(open: () => Promise<string>): Promise<void> {
    try {
      const address = await open();
      if (!this.isDisposed) {
        this.display(address);
      }
    } catch (error) {
      setText(this.state, sentence(error));
      this.state.setAttribute('role', 'alert');
    }
  }

  private display(address: string): void {
    // It asks for new figures by itself only where its user said so, or said nothing here yet.
    if (localStorage.getItem(SETTINGS) === null) {
      localStorage.setItem(SETTINGS, RELOADS);
    }
    const frame = new IFrame({ sandbox: ['allow-scripts', 'allow-same-origin', 'allow-forms', 'allow-popups', 'allow-downloads', 'allow-modals'] });
    frame.url = address;
    frame.node.querySelector('iframe')?.setAttribute('title', 'TensorBoard');
    this.state.remove();
    (this.layout as PanelLayout).addWidget(frame);
  }
}
