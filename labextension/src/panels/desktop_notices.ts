// The desktop's notifications of runs that ended, if the user wishes: for a page that is not in sight.
import { Notification as Toast } from '@jupyterlab/apputils';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import { duration, loss } from '../components/format';
import type { Notice } from '../model/notice';
import { cellText, type RunRecord } from '../model/runs';
import type { Server } from '../model/server';
import type { CurrentNotebook } from '../notebook/current';
import { CommandIDs, PluginIDs } from '../tokens';
import type { Context } from './context';

const SETTING = 'desktopNotifications';
/** Who waits for less has not looked elsewhere. */
const LEAST_S = 10;
const OPEN = 'docmanager:open';

export class DesktopNotices {
  private settings: ISettingRegistry.ISettings | null = null;
  private isOn = false;

  constructor(
    private readonly context: Context,
    private readonly server: Pick<Server, 'runOrNull'>,
    settings: ISettingRegistry | null,
    private readonly notebook: CurrentNotebook,
  ) {
    void settings?.load(PluginIDs.panel).then((loaded) => {
      this.settings = loaded;
      this.isOn = loaded.get(SETTING).composite === true;
      loaded.changed.connect(() => {
        const before = this.isOn;
        this.isOn = loaded.get(SETTING).composite === true;
        // Asked for when they are turned on, in the page where that is done, and never when a page is loaded.
        if (this.isOn && !before && document.hasFocus()) {
          void this.ask();
        }
      });
    });
    context.hub.noticed.connect((_, notice) => void this.onNotice(notice));
  }

  get isWished(): boolean {
    return this.isOn;
  }

  async toggle(): Promise<void> {
    await this.settings?.set(SETTING, !this.isOn);
  }

  /** Have the browser ask for its permission, and say where it gives none. */
  private async ask(): Promise<void> {
    const permission = 'Notification' in window ? await window.Notification.requestPermission() : 'denied';
    if (permission !== 'granted') {
      const { trans } = this.context;
      Toast.warning(trans.__('The browser does not let this page show desktop notifications. Allow them in its settings for this site.'));
    }
  }

  private async onNotice(notice: Notice): Promise<void> {
    const { state, seconds, fault, run, kernel } = notice;
    const isWorth = state !== 'running' && (fault !== null || (seconds ?? 0) >= LEAST_S);
    if (!isWorth || !this.isOn || !document.hidden || !('Notification' in window) || window.Notification.permission !== 'granted') {
      return;
    }
    const record = await this.server.runOrNull(run).catch(() => null);
    // One a run, though several pages of the browser have it.
    const shown = new window.Notification(this.name(record, kernel), { body: this.text(notice, record), tag: run });
    shown.onclick = () => {
      shown.close();
      this.focus(kernel, run);
    };
  }

  private name(record: RunRecord | null, kernel: string): string {
    const cell = record === null ? '' : cellText(record);
    return record?.name ?? (cell === '' ? this.context.nameOf(kernel) : cell);
  }

  private text({ state, seconds, fault }: Notice, record: RunRecord | null): string {
    const { trans } = this.context;
    const parts = [seconds === null ? trans.__(state) : trans.__('%1 after %2', trans.__(state), duration(seconds))];
    if (record !== null && record.loss !== null) {
      parts.push(trans.__('loss %1', loss(record.loss)));
    }
    return [parts.join(', '), ...(fault === null ? [] : [fault.text])].join('\n');
  }

  /** Bring the run's notebook to the front, or the run's page where it has none. */
  private focus(kernel: string, run: string): void {
    window.focus();
    const { nameOf, act } = this.context;
    const path = nameOf(kernel);
    if (this.notebook.kernel?.id === kernel && this.notebook.panel?.isVisible === true) {
      return;
    }
    if (path.endsWith('.ipynb')) {
      act(OPEN, { path });
    } else {
      act(CommandIDs.openRun, { run });
    }
  }
}
