// Cells that run on ranks: the switch and the field in the toolbar, the mark of what came of each, and ranks for one
// that had none.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import type { Widget } from '@lumino/widgets';
import { ranksIcon } from '../icons';
import { activeCode, isDistributed, RanksField, toggle } from '../notebook/distributed';
import { ExtensionLoader } from '../notebook/extension';
import { markCells } from '../notebook/marks';
import { asNotebook } from '../notebook/panels';
import { offerRanks } from '../notebook/start_offer';
import { CommandIDs, type Distributed, IDistributed, PluginIDs } from '../tokens';
import { inPalette } from './palette';

export const cells: JupyterFrontEndPlugin<void> = {
  id: PluginIDs.cells,
  description: 'The switch that has a cell run on ranks, which of them, the mark of what came of it, and ranks where it had none.',
  autoStart: true,
  requires: [IDistributed],
  optional: [ICommandPalette, IToolbarWidgetRegistry],
  activate: (app: JupyterFrontEnd, distributed: Distributed, palette: ICommandPalette | null, toolbars: IToolbarWidgetRegistry | null): void => {
    const { trans, hub, marks, server } = distributed;
    const runCell = (): void => void app.commands.execute('notebook:run-cell');
    addSwitch(app, distributed);
    inPalette(palette, trans, [CommandIDs.toggleDistributed]);
    toolbars?.addFactory('Notebook', 'ddl-ranks', (widget: Widget) => {
      const opened = asNotebook(widget);
      if (opened === null) {
        throw new Error('The field for ranks is of notebooks only.');
      }
      return new RanksField(opened, trans, hub);
    });
    app.docRegistry.addWidgetExtension('Notebook', {
      createNew: (widget) => {
        const opened = asNotebook(widget);
        if (opened !== null) {
          markCells(opened, marks);
          offerRanks(opened, { hub, server, trans, runCell });
          opened.content.modelContentChanged.connect(() => app.commands.notifyCommandChanged(CommandIDs.toggleDistributed));
        }
      },
    });
  },
};

function addSwitch({ commands }: JupyterFrontEnd, { trans, hub, notebook }: Distributed): void {
  const loader = new ExtensionLoader(hub);
  const changed = (): void => commands.notifyCommandChanged(CommandIDs.toggleDistributed);
  commands.addCommand(CommandIDs.toggleDistributed, {
    label: trans.__('Run Cell on Ranks'),
    icon: ranksIcon,
    caption: trans.__('Run this cell on the ranks (%1)', '%%distributed'),
    isEnabled: () => activeCode(notebook.panel) !== null,
    isToggleable: true,
    isToggled: () => isDistributed(activeCode(notebook.panel)),
    execute: () => {
      const { panel } = notebook;
      const cell = activeCode(panel);
      if (panel !== null && cell !== null) {
        toggle(cell);
        if (isDistributed(cell)) {
          loader.want(panel);
        }
        changed();
      }
    },
  });
  notebook.changed.connect(changed);
}
