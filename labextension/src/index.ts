// Wires the extension: which of JupyterLab's services go to which part.
import { ILabShell, ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, IToolbarWidgetRegistry, type MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { ICompletionProviderManager } from '@jupyterlab/completer';
import { ILauncher } from '@jupyterlab/launcher';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStateDB } from '@jupyterlab/statedb';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITooltipManager } from '@jupyterlab/tooltip';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { SidePanel } from '@jupyterlab/ui-components';
import type { Widget } from '@lumino/widgets';
import { addCommands } from './commands';
import { Connection } from './connection';
import './dashboard.css';
import { ranksIcon } from './icons';
import { CellMarks } from './model/cell_marks';
import { HubModel } from './model/hub';
import { LiveRuns } from './model/live';
import { OpenEnds } from './model/open_ends';
import { RankCompletions } from './notebook/asking';
import { CurrentNotebook } from './notebook/current';
import { RanksField } from './notebook/distributed';
import { markCells } from './notebook/marks';
import { asNotebook } from './notebook/panels';
import { NotebookPaths } from './notebook/paths';
import { keepPictures } from './notebook/pictures';
import { showRuns } from './notebook/run_output';
import { runLine } from './notebook/start';
import './panel.css';
import type { ComparePage } from './panels/compare_page';
import type { Context } from './panels/context';
import type { LogPage } from './panels/log_page';
import { Notices } from './panels/notices';
import { RanksSection } from './panels/ranks_section';
import type { RunPage } from './panels/run_page';
import { RunsSection } from './panels/runs_section';
import type { StacksPage } from './panels/stacks_page';
import { StatusItem } from './panels/status';
import { keepState } from './state';
import { CommandIDs, NAMESPACE, PANEL, PLUGIN } from './tokens';

const plugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN,
  description: 'Ranks, runs and distributed cells of jupyter_ddl.',
  autoStart: true,
  optional: [
    ITranslator,
    ICommandPalette,
    ILauncher,
    IStatusBar,
    ILayoutRestorer,
    IStateDB,
    ISettingRegistry,
    IToolbarWidgetRegistry,
    ICompletionProviderManager,
    ITooltipManager,
    ILabShell,
  ],
  activate,
};

function activate(
  app: JupyterFrontEnd,
  translator: ITranslator | null,
  palette: ICommandPalette | null,
  launcher: ILauncher | null,
  statusBar: IStatusBar | null,
  restorer: ILayoutRestorer | null,
  state: IStateDB | null,
  settings: ISettingRegistry | null,
  toolbars: IToolbarWidgetRegistry | null,
  completions: ICompletionProviderManager | null,
  tooltips: ITooltipManager | null,
  lab: ILabShell | null,
): void {
  const trans = (translator ?? nullTranslator).load('jupyter_ddl');
  const { serviceManager, shell, commands } = app;
  const connection = new Connection(serviceManager.serverSettings);
  const hub = new HubModel();
  const paths = new NotebookPaths(serviceManager.sessions);
  const marks = new CellMarks(hub, (kernel) => paths.of(kernel));
  const cutOff = trans.__('The kernel ended while this run went on, and so the run was cut off.');
  const ends = new OpenEnds(hub, marks, (run) => connection.runOrNull(run), cutOff);
  const runs = new LiveRuns(connection);
  connection.opened.connect((_, isOpen) => {
    hub.connect(isOpen);
    if (isOpen) {
      ends.check();
    }
    if (isOpen && !document.hidden) {
      runs.resume();
    }
  });
  document.addEventListener('visibilitychange', () => (document.hidden ? runs.pause() : runs.resume()));
  connection.message.connect((_, message) => hub.handle(message));
  connection.batch.connect((_, { run, bytes, ended }) => runs.handle(run, bytes, ended));

  const nameOf = (kernel: string): string => paths.of(kernel) ?? trans.__('kernel %1', kernel.slice(0, 8));
  const context: Context = { hub, runs, connection, commands, trans, nameOf };
  const notebook = new CurrentNotebook(shell);
  const kept = keepState(state, marks, () => ends.check());
  const ranks = new RanksSection(
    context,
    notebook,
    async (line) => {
      const { kernel } = notebook;
      if (kernel !== null) {
        await runLine(kernel, line);
      }
    },
    kept.keepForm,
  );
  void kept.form.then((fields) => ranks.restore(fields));
  const panel = new SidePanel({ ...(translator === null ? {} : { translator }) });
  panel.id = PANEL;
  panel.title.icon = ranksIcon;
  panel.title.caption = trans.__('Distributed');
  panel.addWidget(ranks);
  panel.addWidget(new RunsSection(context));
  shell.add(panel, 'left', { rank: 350 });
  restorer?.add(panel, PANEL);

  const pages = {
    stacks: new WidgetTracker<MainAreaWidget<StacksPage>>({ namespace: `${NAMESPACE}-stacks` }),
    runs: new WidgetTracker<MainAreaWidget<RunPage>>({ namespace: `${NAMESPACE}-runs` }),
    logs: new WidgetTracker<MainAreaWidget<LogPage>>({ namespace: `${NAMESPACE}-logs` }),
    compared: new WidgetTracker<MainAreaWidget<ComparePage>>({ namespace: `${NAMESPACE}-compared` }),
  };
  addCommands(app, context, notebook, pages, tooltips, () => ranks.focusForm(), lab === null ? 'down' : 'main');
  if (restorer !== null) {
    const ofRun = ({ content }: { readonly content: { readonly run: string } }): { run: string } => ({ run: content.run });
    void restorer.restore(pages.runs, { command: CommandIDs.openRun, args: ofRun, name: ({ content }) => content.run });
    void restorer.restore(pages.logs, {
      command: CommandIDs.openLog,
      args: ({ content }) => ({ run: content.run, rank: content.rank }),
      name: ({ content }) => content.run,
    });
    void restorer.restore(pages.stacks, {
      command: CommandIDs.stacksOf,
      args: ({ content }) => ({ kernel: content.kernel }),
      name: ({ content }) => content.kernel,
    });
    void restorer.restore(pages.compared, {
      command: CommandIDs.compare,
      args: ({ content }) => ({ first: content.first, second: content.second }),
      name: ({ content }) => `${content.first} ${content.second}`,
    });
  }

  const category = trans.__('Distributed');
  const { showPanel, start, interrupt, stop, restart, stacks, toggleDistributed } = CommandIDs;
  for (const command of [showPanel, start, interrupt, stop, restart, stacks, toggleDistributed]) {
    palette?.addItem({ command, category });
  }
  launcher?.add({ command: showPanel, category: trans.__('Other') });
  statusBar?.registerStatusItem(`${NAMESPACE}:status`, { item: new StatusItem(context, notebook), align: 'left', rank: 5 });
  completions?.registerProvider(new RankCompletions(connection, hub));
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
        showRuns(opened, context);
        keepPictures(opened, context);
        opened.content.modelContentChanged.connect(() => commands.notifyCommandChanged(toggleDistributed));
      }
    },
  });
  new Notices(context, settings, notebook);
  connection.open();
}

export default plugin;
