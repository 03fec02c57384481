// The plugin that connects to the hub; all others get their models from it.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IStateDB } from '@jupyterlab/statedb';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { Connection } from '../connection';
import { CellMarks } from '../model/cell_marks';
import { HubModel } from '../model/hub';
import { LiveRuns } from '../model/live';
import { OpenEnds } from '../model/open_ends';
import { CurrentNotebook } from '../notebook/current';
import { NotebookPaths } from '../notebook/paths';
import { keepMarks } from '../state';
import { type Distributed, IDistributed, PluginIDs } from '../tokens';

export const hub: JupyterFrontEndPlugin<Distributed> = {
  id: PluginIDs.hub,
  description: 'The connection to the hub of jupyter_ddl, and what it says of ranks and runs.',
  autoStart: true,
  provides: IDistributed,
  optional: [ITranslator, IStateDB],
  activate,
};

function activate(app: JupyterFrontEnd, translator: ITranslator | null, state: IStateDB | null): Distributed {
  const trans = (translator ?? nullTranslator).load('jupyter_ddl');
  const { serviceManager, shell, commands } = app;
  const server = new Connection(serviceManager.serverSettings, trans);
  const hubModel = new HubModel();
  const paths = new NotebookPaths(serviceManager.sessions);
  const marks = new CellMarks(hubModel, (kernel) => paths.of(kernel));
  const cutOff = trans.__('The kernel ended during this run, which was cut off.');
  const ends = new OpenEnds(hubModel, marks, (run) => server.runOrNull(run), cutOff);
  const runs = new LiveRuns(server);
  // First: the models' own slots find a hub that knows whether it is connected.
  server.opened.connect((_, isOpen) => hubModel.connect(isOpen));
  server.opened.connect((_, isOpen) => void (isOpen && ends.check()));
  server.message.connect((_, message) => hubModel.handle(message));
  follow(server, runs);
  if (state !== null) {
    keepMarks(state, marks, () => ends.check());
  }
  // Once all plugins listen: what the hub says of a fault it says once.
  void app.started.then(() => server.open());
  return {
    server,
    hub: hubModel,
    runs,
    marks,
    trans,
    notebook: new CurrentNotebook(shell),
    // A script's run has no kernel: its notice names the script.
    nameOf: (kernel) => paths.of(kernel) ?? (kernel.endsWith('.py') ? kernel : trans.__('kernel %1', kernel.slice(0, 8))),
    act: (command, given) => void (commands.hasCommand(command) && commands.execute(command, given)),
    ask: async (command, given) => {
      const problem: unknown = commands.hasCommand(command) ? await commands.execute(command, given) : '';
      return typeof problem === 'string' ? problem : '';
    },
    can: (command) => commands.hasCommand(command),
  };
}

/** Request the events of the shown runs while the page is visible. */
function follow(server: Connection, runs: LiveRuns): void {
  if (document.hidden) {
    runs.pause();
  }
  server.opened.connect((_, isOpen) => void (isOpen && runs.reconnect()));
  document.addEventListener('visibilitychange', () => (document.hidden ? runs.pause() : runs.resume()));
  server.batch.connect((_, { run, bytes, ended }) => runs.handle(run, bytes, ended));
}
