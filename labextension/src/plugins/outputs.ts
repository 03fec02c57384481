// A run's dashboard and picture under its cell, from the hub: the renderer of their MIME type.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { asNotebook } from '../notebook/panels';
import { keepPictures } from '../notebook/pictures';
import { showRuns } from '../notebook/run_output';
import { type Distributed, IDistributed, PluginIDs } from '../tokens';

export const outputs: JupyterFrontEndPlugin<void> = {
  id: PluginIDs.outputs,
  description: 'The dashboard of a run under its cell, whatever the kernel does, above the lines that it has too, and the picture that it leaves.',
  autoStart: true,
  requires: [IDistributed],
  activate: ({ docRegistry }: JupyterFrontEnd, { hub, runs, server, trans }: Distributed): void => {
    docRegistry.addWidgetExtension('Notebook', {
      createNew: (widget) => {
        const opened = asNotebook(widget);
        if (opened !== null) {
          showRuns(opened, { hub, runs, server, trans });
          keepPictures(opened, hub, server);
        }
      },
    });
  },
};
