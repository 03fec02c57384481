// The status bar's item.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';
import { StatusItem } from '../panels/status';
import { type Distributed, IDistributed, NAMESPACE, PluginIDs } from '../tokens';

export const status: JupyterFrontEndPlugin<void> = {
  id: PluginIDs.status,
  description: 'How many ranks there are and how fast they train, or their fault, in the status bar.',
  autoStart: true,
  requires: [IDistributed],
  optional: [IStatusBar],
  activate: (_: JupyterFrontEnd, distributed: Distributed, statusBar: IStatusBar | null): void => {
    statusBar?.registerStatusItem(`${NAMESPACE}:status`, {
      item: new StatusItem(distributed, distributed.notebook),
      align: 'left',
      rank: 5,
    });
  },
};
