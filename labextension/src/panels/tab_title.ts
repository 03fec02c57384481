// The title of the browser's tab: how far the training of the notebook in front is, before what JupyterLab has there.
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import { whole } from '../components/format';
import type { CurrentNotebook } from '../notebook/current';
import { PluginIDs } from '../tokens';
import type { Context } from './context';
import { FollowedRun } from './followed_run';

export class TabTitle {
  private isWished: boolean;
  private readonly followed: FollowedRun;
  /** What JupyterLab had there, and what was put there in its place. */
  private before = '';
  private shown: string | null = null;

  constructor(
    private readonly context: Context,
    settings: ISettingRegistry | null,
    private readonly notebook: CurrentNotebook,
  ) {
    this.isWished = settings === null;
    const update = (): void => this.update();
    // A tab's title is read where the page itself is not in sight.
    this.followed = new FollowedRun(context.runs, update, true);
    const read = (loaded: ISettingRegistry.ISettings): void => {
      this.isWished = loaded.get('tabTitle').composite === true;
      update();
    };
    void settings?.load(PluginIDs.panel).then((loaded) => {
      loaded.changed.connect(read);
      read(loaded);
    });
    context.hub.changed.connect(update);
    notebook.changed.connect(update);
    // JupyterLab writes it when another page is chosen, and no event of the run need follow.
    const title = document.querySelector('title');
    if (title !== null) {
      new MutationObserver(update).observe(title, { childList: true });
    }
  }

  private update(): void {
    const kernel = this.isWished ? this.notebook.kernel?.id : undefined;
    this.followed.follow((kernel !== undefined && this.context.hub.kernels.get(kernel)?.run) || null);
    const { epoch = null, epochs = null } = this.followed.model?.progress ?? {};
    this.show(epoch === null || epochs === null ? '' : `${whole(epoch)}/${whole(epochs)} `);
  }

  private show(prefix: string): void {
    // JupyterLab may have put another one there since.
    const isOurs = document.title === this.shown;
    this.before = isOurs ? this.before : document.title;
    const title = `${prefix}${this.before}`;
    this.shown = prefix === '' ? null : title;
    if (document.title !== title) {
      document.title = title;
    }
  }
}
