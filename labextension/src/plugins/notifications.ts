// Notifications of faults, and of the ends of long runs: JupyterLab's, and the desktop's.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { DesktopNotices } from '../panels/desktop_notices';
import { Notices } from '../panels/notices';
import { CommandIDs, type Distributed, IDistributed, PluginIDs } from '../tokens';
import { inPalette } from './palette';

export const notifications: JupyterFrontEndPlugin<void> = {
  id: PluginIDs.notifications,
  description: 'Notifications of faults, and of the ends of long runs, where the notebook is not in sight.',
  autoStart: true,
  requires: [IDistributed],
  optional: [ISettingRegistry, ICommandPalette],
  activate: (
    { commands }: JupyterFrontEnd,
    distributed: Distributed,
    settings: ISettingRegistry | null,
    palette: ICommandPalette | null,
  ): void => {
    const { trans, server, notebook } = distributed;
    new Notices(distributed, settings, notebook);
    const desktop = new DesktopNotices(distributed, server, settings, notebook);
    commands.addCommand(CommandIDs.desktopNotifications, {
      label: trans.__('Desktop Notifications of Runs'),
      isToggled: () => desktop.isWished,
      execute: () => desktop.toggle(),
    });
    inPalette(palette, trans, [CommandIDs.desktopNotifications]);
  },
};
