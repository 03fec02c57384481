// Notifications of faults, and of the ends of long runs.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { Notices } from '../panels/notices';
import { type Distributed, IDistributed, PluginIDs } from '../tokens';

export const notifications: JupyterFrontEndPlugin<void> = {
  id: PluginIDs.notifications,
  description: 'Notifications of faults, and of the ends of long runs, where the notebook is not in sight.',
  autoStart: true,
  requires: [IDistributed],
  optional: [ISettingRegistry],
  activate: (_: JupyterFrontEnd, distributed: Distributed, settings: ISettingRegistry | null): void => {
    new Notices(distributed, settings, distributed.notebook);
  },
};
