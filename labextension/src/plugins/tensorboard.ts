// TensorBoard: of a run, or of a folder that is asked for. The code is loaded when the first one is opened.
import { ILabShell, ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, InputDialog } from '@jupyterlab/apputils';
import type { BoardOf } from '../model/server';
import type { BoardPage } from '../panels/board_page';
import { CommandIDs, type Distributed, IDistributed, PluginIDs } from '../tokens';
import { type Given, textOf } from './given';
import { Pages } from './page_area';
import { inPalette } from './palette';

export const tensorboard: JupyterFrontEndPlugin<void> = {
  id: PluginIDs.tensorboard,
  description: 'TensorBoard of runs and of folders of logs.',
  autoStart: true,
  requires: [IDistributed],
  optional: [ILayoutRestorer, ILabShell, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    { trans, server }: Distributed,
    restorer: ILayoutRestorer | null,
    lab: ILabShell | null,
    palette: ICommandPalette | null,
  ): void => {
    const shown = new Pages<BoardPage>(app.shell, lab === null ? 'down' : 'main', 'boards');
    const ask = async (): Promise<string> => {
      const { value } = await InputDialog.getText({ title: trans.__('TensorBoard'), label: trans.__('Folder of logs, as an absolute path') });
      return value ?? '';
    };
    app.commands.addCommand(CommandIDs.tensorboard, {
      label: trans.__('Open TensorBoard…'),
      execute: async (given: Given) => {
        const run = textOf(given, 'run');
        const folder = run === '' ? textOf(given, 'folder') || (await ask()) : '';
        if (run === '' && folder === '') {
          return null;
        }
        const of: BoardOf = run === '' ? { folder } : { run };
        const { BoardPage } = await import('../panels/board_page');
        const name = run === '' ? folder.split('/').filter(Boolean).pop() ?? folder : run.slice(-4);
        const make = (): BoardPage => new BoardPage(of, () => server.openBoard(of), trans);
        return shown.show((page) => JSON.stringify(page.of) === JSON.stringify(of), make, trans.__('TensorBoard %1', name));
      },
    });
    shown.restore(restorer, CommandIDs.tensorboard, ({ of }) => ({ ...of }));
    inPalette(palette, trans, [CommandIDs.tensorboard]);
  },
};
