// The notebook that a beginner opens: a card in the launcher, and the command that empty lists lead to.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, showErrorMessage } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { type Contents, ServerConnection } from '@jupyterlab/services';
import { ranksIcon } from '../icons';
import { sentence } from '../model/server';
import { CommandIDs, type Distributed, IDistributed, PluginIDs } from '../tokens';
import { textOf } from './given';
import { inPalette } from './palette';

const NAME = 'distributed-training';
const TAKEN = 409;

export const example: JupyterFrontEndPlugin<void> = {
  id: PluginIDs.example,
  description: 'A small notebook that trains on two ranks.',
  autoStart: true,
  requires: [IDistributed],
  optional: [ICommandPalette, ILauncher],
  activate: (app: JupyterFrontEnd, { trans, server }: Distributed, palette: ICommandPalette | null, launcher: ILauncher | null): void => {
    const { commands, serviceManager } = app;
    commands.addCommand(CommandIDs.openExample, {
      label: (args) => (args['isLauncher'] === true ? trans.__('Distributed training') : trans.__('Open an Example Notebook')),
      caption: trans.__('A new notebook that trains on two ranks'),
      icon: ranksIcon,
      execute: async (args) => {
        try {
          const path = await write(serviceManager.contents, textOf(args, 'cwd'), await server.example());
          return await commands.execute('docmanager:open', { path, factory: 'Notebook' });
        } catch (error) {
          await showErrorMessage(trans.__('No example notebook'), sentence(error));
          return null;
        }
      },
    });
    inPalette(palette, trans, [CommandIDs.openExample]);
    launcher?.add({ command: CommandIDs.openExample, args: { isLauncher: true }, category: trans.__('Notebook'), rank: 100 });
  },
};

/** Write a notebook into a folder, under a name that is free there; return its path. */
async function write(contents: Contents.IManager, folder: string, content: unknown): Promise<string> {
  const { path } = await contents.newUntitled({ path: folder, type: 'notebook' });
  await contents.save(path, { type: 'notebook', format: 'json', content });
  for (let at = 1; ; at++) {
    const name = at === 1 ? `${NAME}.ipynb` : `${NAME}-${at}.ipynb`;
    try {
      return (await contents.rename(path, folder === '' ? name : `${folder}/${name}`)).path;
    } catch (error) {
      if (!(error instanceof ServerConnection.ResponseError && error.response.status === TAKEN)) {
        throw error;
      }
    }
  }
}
