// Cells that run on ranks: the switch and the fields in the toolbar, the mark of what came of each, and ranks for one
// that had none.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, IToolbarWidgetRegistry, Notification } from '@jupyterlab/apputils';
import type { Widget } from '@lumino/widgets';
import { ranksIcon } from '../icons';
import { activeCode, isDistributed, RanksField, toggle } from '../notebook/distributed';
import { ExtensionLoader } from '../notebook/extension';
import { markCells } from '../notebook/marks';
import { ModeField } from '../notebook/mode_field';
import { asNotebook, type NotebookPanel } from '../notebook/panels';
import { offerRanks } from '../notebook/start_offer';
import { type NotebookMode, NotebookModes } from '../notebook/whole_notebook';
import { CommandIDs, type Distributed, IDistributed, PluginIDs } from '../tokens';
import { inPalette } from './palette';

export const cells: JupyterFrontEndPlugin<void> = {
  id: PluginIDs.cells,
  description: 'The switch that has a cell or the notebook run on ranks, their marks, and ranks where there are none.',
  autoStart: true,
  requires: [IDistributed],
  optional: [ICommandPalette, IToolbarWidgetRegistry],
  activate: (app: JupyterFrontEnd, distributed: Distributed, palette: ICommandPalette | null, toolbars: IToolbarWidgetRegistry | null): void => {
    const { trans, hub, marks, server } = distributed;
    const modes = new NotebookModes(hub, (text) => {
      Notification.error(trans.__('This kernel cannot run the notebook on ranks: %1', text), { autoClose: false });
    });
    const runCell = (): void => void app.commands.execute('notebook:run-cell');
    addSwitch(app, distributed, modes);
    addMode(app, distributed, modes);
    inPalette(palette, trans, [CommandIDs.toggleDistributed, CommandIDs.toggleWhole]);
    toolbars?.addFactory('Notebook', 'ddl-mode', (widget: Widget) => new ModeField(modes.of(notebookOf(widget)), trans));
    toolbars?.addFactory('Notebook', 'ddl-ranks', (widget: Widget) => {
      const opened = notebookOf(widget);
      return new RanksField(opened, trans, hub, modes.of(opened));
    });
    app.docRegistry.addWidgetExtension('Notebook', {
      createNew: (widget) => {
        const opened = asNotebook(widget);
        if (opened !== null) {
          const mode = modes.of(opened);
          markCells(opened, marks, mode);
          offerRanks(opened, { hub, server, trans, runCell });
          const changed = (): void => {
            app.commands.notifyCommandChanged(CommandIDs.toggleDistributed);
            app.commands.notifyCommandChanged(CommandIDs.toggleWhole);
          };
          opened.content.modelContentChanged.connect(changed);
          mode.changed.connect(changed);
        }
      },
    });
  },
};

function notebookOf(widget: Widget): NotebookPanel {
  const opened = asNotebook(widget);
  if (opened === null) {
    throw new Error('The fields for ranks are of notebooks only.');
  }
  return opened;
}

function addSwitch({ commands }: JupyterFrontEnd, { trans, hub, notebook }: Distributed, modes: NotebookModes): void {
  const loader = new ExtensionLoader(hub);
  const changed = (): void => commands.notifyCommandChanged(CommandIDs.toggleDistributed);
  const isWhole = (panel: NotebookPanel | null): boolean => panel !== null && modes.of(panel).isWhole;
  commands.addCommand(CommandIDs.toggleDistributed, {
    label: trans.__('Run Cell on Ranks'),
    icon: ranksIcon,
    caption: trans.__('Run this cell on the ranks (%1)', '%%distributed'),
    isEnabled: () => activeCode(notebook.panel) !== null,
    isToggleable: true,
    isToggled: () => isDistributed(activeCode(notebook.panel), isWhole(notebook.panel)),
    execute: () => {
      const { panel } = notebook;
      const cell = activeCode(panel);
      if (panel !== null && cell !== null) {
        toggle(cell, isWhole(panel));
        if (isDistributed(cell, isWhole(panel))) {
          loader.want(panel);
        }
        changed();
      }
    },
  });
  notebook.changed.connect(changed);
}

function addMode({ commands }: JupyterFrontEnd, { trans, notebook }: Distributed, modes: NotebookModes): void {
  const ofFront = (): NotebookMode | null => (notebook.panel === null ? null : modes.of(notebook.panel));
  commands.addCommand(CommandIDs.toggleWhole, {
    label: trans.__('Run Whole Notebook on Ranks'),
    caption: trans.__('Run each cell without a magic on the ranks (%1)', '%ddl auto on'),
    isEnabled: () => notebook.panel !== null,
    isToggleable: true,
    isToggled: () => ofFront()?.isWhole ?? false,
    execute: () => ofFront()?.choose(!ofFront()!.isWhole),
  });
  notebook.changed.connect(() => commands.notifyCommandChanged(CommandIDs.toggleWhole));
}
