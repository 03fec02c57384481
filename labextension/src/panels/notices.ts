// Notifications of faults, and of the ends of long runs, if the user wishes.
import { Notification } from '@jupyterlab/apputils';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { KernelState } from '../model/hub_messages';
import type { Notice } from '../model/notice';
import { CUT_OFF } from '../model/open_ends';
import type { CurrentNotebook } from '../notebook/current';
import { CommandIDs, PluginIDs } from '../tokens';
import type { Context } from './context';

const LONG_S = 60;

/** The notification of a run that has not ended: its end takes that away. */
interface Pending {
  readonly run: string;
  readonly id: string;
}

export class Notices {
  private isWished: boolean;
  /** By kernel. */
  private readonly pending = new Map<string, Pending>();

  constructor(
    private readonly context: Context,
    settings: ISettingRegistry | null,
    private readonly notebook: CurrentNotebook,
  ) {
    this.isWished = settings === null;
    const read = (loaded: ISettingRegistry.ISettings): void => {
      this.isWished = loaded.get('notifications').composite === true;
    };
    void settings?.load(PluginIDs.panel).then((loaded) => {
      loaded.changed.connect(read);
      read(loaded);
    });
    context.hub.noticed.connect((_, notice) => this.onNotice(notice));
    context.hub.faulted.connect((_, state) => this.onFault(state));
  }

  private onNotice(notice: Notice): void {
    const { run, state, seconds, fault, kernel } = notice;
    if (state === 'running') {
      return;
    }
    const before = this.pending.get(kernel);
    if (before?.run === run) {
      this.pending.delete(kernel);
      Notification.dismiss(before.id);
    }
    const { trans, nameOf } = this.context;
    const isLong = (seconds ?? 0) > LONG_S;
    // The panel has nothing more to show of a kernel that died.
    const isSeen = this.isSeen(kernel) && state !== CUT_OFF;
    if (!this.isWished || isSeen || !(isLong || fault !== null)) {
      return;
    }
    const actions = [this.action(trans.__('Open'), CommandIDs.openRun, { run })];
    const text = `${nameOf(kernel)}: ${fault?.text ?? trans.__('A run is over: %1', trans.__(state))}`;
    if (fault === null && state === 'finished') {
      Notification.success(text, { actions });
    } else {
      Notification.error(text, { actions, autoClose: false });
    }
  }

  /** A fault between runs, or of an active one: it stalls, or its ranks are lost. */
  private onFault({ fault, run, kernel, cluster }: KernelState): void {
    // The panel has nothing more to show of ranks that were ended as idle.
    const isSeen = this.isSeen(kernel) && cluster?.state !== 'stopped';
    if (!this.isWished || isSeen || fault === null) {
      return;
    }
    const { trans, nameOf } = this.context;
    const actions = run === null ? [] : [this.action(trans.__('Stacks'), CommandIDs.stacks, { kernel })];
    const id = Notification.error(`${nameOf(kernel)}: ${fault.text}`, { actions, autoClose: false });
    if (run !== null) {
      this.pending.set(kernel, { run, id });
    }
  }

  private action(label: string, command: string, given: Readonly<Record<string, string>>): Notification.IAction {
    return { label, callback: () => this.context.act(command, given) };
  }

  /** Who has the notebook before their eyes sees it there. */
  private isSeen(kernel: string): boolean {
    const { notebook } = this;
    return !document.hidden && notebook.kernel?.id === kernel && notebook.panel?.isVisible === true;
  }
}
