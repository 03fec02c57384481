// The sidebar: the ranks of all kernels, the form that starts some, and the runs on disk.
import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { IStateDB } from '@jupyterlab/statedb';
import { ITranslator } from '@jupyterlab/translation';
import { SidePanel } from '@jupyterlab/ui-components';
import { AccordionPanel } from '@lumino/widgets';
import { ranksIcon } from '../icons';
import { JobsModel } from '../model/jobs_model';
import { KeptModel } from '../model/kept_model';
import type { ExportRequest } from '../model/place';
import { RoomModel } from '../model/room';
import { RunValuesModel } from '../model/run_values';
import { RunsModel } from '../model/runs_model';
import type { NotebookPanel } from '../notebook/panels';
import { runLine } from '../notebook/start';
import { RanksSection } from '../panels/ranks_section';
import { RunsSection } from '../panels/runs_section';
import { fitFirstSection } from '../panels/section_height';
import { formOf, keepForm, keepSearch, searchOf } from '../state';
import { CommandIDs, type Distributed, IDistributed, PANEL, PluginIDs } from '../tokens';
import { inPalette } from './palette';

export const panel: JupyterFrontEndPlugin<void> = {
  id: PluginIDs.panel,
  description: 'The sidebar with ranks and runs.',
  autoStart: true,
  requires: [IDistributed],
  optional: [ITranslator, ICommandPalette, ILauncher, ILayoutRestorer, IStateDB],
  activate,
};

function activate(
  app: JupyterFrontEnd,
  distributed: Distributed,
  translator: ITranslator | null,
  palette: ICommandPalette | null,
  launcher: ILauncher | null,
  restorer: ILayoutRestorer | null,
  state: IStateDB | null,
): void {
  const { commands, shell } = app;
  const { trans } = distributed;
  const ranks = ranksSection(distributed, state);
  const sidebar = new SidePanel({ ...(translator === null ? {} : { translator }) });
  sidebar.id = PANEL;
  sidebar.title.icon = ranksIcon;
  sidebar.title.caption = trans.__('Distributed');
  sidebar.addWidget(ranks);
  sidebar.addWidget(runsSection(distributed, state));
  if (sidebar.content instanceof AccordionPanel) {
    fitFirstSection(sidebar.content, ranks.content);
  }
  shell.add(sidebar, 'left', { rank: 350 });
  restorer?.add(sidebar, PANEL);

  const show = (): void => shell.activateById(PANEL);
  commands.addCommand(CommandIDs.showPanel, { label: trans.__('Show Distributed Ranks'), icon: ranksIcon, execute: show });
  commands.addCommand(CommandIDs.start, {
    label: trans.__('Start Ranks…'),
    execute: () => {
      show();
      ranks.focusForm();
    },
  });
  inPalette(palette, trans, [CommandIDs.showPanel, CommandIDs.start]);
  launcher?.add({ command: CommandIDs.showPanel, category: trans.__('Other') });
}

function runsSection(distributed: Distributed, state: IStateDB | null): RunsSection {
  const { server, hub, notebook } = distributed;
  const model = new RunsModel(server, hub);
  const keep = (search: string): void => void (state !== null && keepSearch(state, search));
  const runs = new RunsSection(distributed, model, new RunValuesModel(server, model), notebook, keep);
  if (state !== null) {
    void searchOf(state).then((search) => runs.restore(search));
  }
  return runs;
}

function ranksSection(distributed: Distributed, state: IStateDB | null): RanksSection {
  const { server, hub, notebook } = distributed;
  const kept = new KeptModel(server, hub);
  const models = { kept, jobs: new JobsModel(server, hub, kept), room: new RoomModel(server) };
  const start = async (line: string): Promise<void> => {
    const { kernel, panel } = notebook;
    if (kernel === null) {
      // It ended since the form was drawn.
      throw new Error(distributed.trans.__('Choose a kernel for %1: the ranks are its.', panel?.context.path ?? ''));
    }
    await runLine(kernel, line, distributed.trans);
  };
  const exports = async (panel: NotebookPanel, request: ExportRequest): Promise<string> => {
    // The server reads the file.
    await panel.context.save();
    return server.export(panel.context.path, request);
  };
  const ranks = new RanksSection(distributed, models, notebook, start, exports, (fields) => void (state !== null && keepForm(state, fields)));
  if (state !== null) {
    void formOf(state).then((fields) => ranks.restore(fields));
  }
  return ranks;
}
