// The status bar's item, and the title of the browser's tab.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { StatusItem } from '../panels/status';
import { TabTitle } from '../panels/tab_title';
import { type Distributed, IDistributed, NAMESPACE, PluginIDs } from '../tokens';

export const status: JupyterFrontEndPlugin<void> = {
  id: PluginIDs.status,
  description: 'How many ranks there are and how far they are, or their fault, in the status bar; the epoch in the title of the tab.',
  autoStart: true,
  requires: [IDistributed],
  optional: [IStatusBar, ISettingRegistry],
  activate: (
    _: JupyterFrontEnd,
    distributed: Distributed,
    statusBar: IStatusBar | null,
    settings: ISettingRegistry | null,
  ): void => {
    new TabTitle(distributed, settings, distributed.notebook);
    statusBar?.registerStatusItem(`${NAMESPACE}:status`, {
      item: new StatusItem(distributed, distributed.notebook),
      align: 'left',
      rank: 5,
    });
  },
};
