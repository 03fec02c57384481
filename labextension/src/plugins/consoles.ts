// Consoles on single ranks, and cells or selections that run in one. Their code is loaded when one is opened.
import { ILabShell, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IEditorServices } from '@jupyterlab/codeeditor';
import { ICompletionProviderManager } from '@jupyterlab/completer';
import { ITooltipManager } from '@jupyterlab/tooltip';
import { ranksIcon } from '../icons';
import { activeCode } from '../notebook/distributed';
import type { NotebookPanel } from '../notebook/panels';
import type { RankConsole } from '../notebook/rank_console';
import { selectedCode } from '../notebook/selection';
import { CommandIDs, type Distributed, IDistributed, PluginIDs } from '../tokens';
import { rankOf, targetOf } from './chosen_rank';
import type { Given } from './given';
import { inPalette } from './palette';

export const consoles: JupyterFrontEndPlugin<void> = {
  id: PluginIDs.consoles,
  description: 'A console on one rank, and a cell or a selection that runs there.',
  autoStart: true,
  requires: [IDistributed, IEditorServices],
  optional: [ICommandPalette, ICompletionProviderManager, ITooltipManager, ILabShell],
  activate: (
    app: JupyterFrontEnd,
    distributed: Distributed,
    editors: IEditorServices,
    palette: ICommandPalette | null,
    completions: ICompletionProviderManager | null,
    tooltips: ITooltipManager | null,
    lab: ILabShell | null,
  ): void => {
    const opened = new Consoles(app, { ...distributed, editors, completions, tooltips }, lab === null);
    addCommands(app, distributed, opened);
    addKeys(app, opened, completions);
    inPalette(palette, distributed.trans, [CommandIDs.openConsole, CommandIDs.runOnRank]);
  },
};

type ConsoleContext = Distributed & Pick<Parameters<typeof import('../notebook/rank_console').openConsole>[0], 'editors' | 'completions' | 'tooltips'>;

/** The consoles that are open, each once. */
class Consoles {
  private readonly all = new Set<RankConsole>();

  /** @param isBelow whether the page shows one notebook only, and all else below it. */
  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly context: ConsoleContext,
    private readonly isBelow: boolean,
  ) {}

  /** The console that has the focus. */
  get focused(): RankConsole | null {
    return [...this.all].find(({ node }) => node.contains(document.activeElement)) ?? null;
  }

  async show(panel: NotebookPanel, rank: number): Promise<RankConsole> {
    const { openConsole } = await import('../notebook/rank_console');
    const find = (): RankConsole | undefined => [...this.all].find((one) => one.panel === panel && one.rank === rank);
    const page = find() ?? openConsole(this.context, panel, rank);
    const { shell } = this.app;
    if (!this.all.has(page)) {
      this.all.add(page);
      page.disposed.connect(() => this.all.delete(page));
      page.title.icon = ranksIcon;
      shell.add(page, this.isBelow ? 'down' : 'main', this.isBelow ? {} : { ref: panel.id, mode: 'split-bottom' });
    }
    shell.activateById(page.id);
    return page;
  }
}

function addCommands({ commands, shell }: JupyterFrontEnd, distributed: Distributed, opened: Consoles): void {
  const { trans, hub, notebook } = distributed;
  const target = (given: Given): NotebookPanel | null => targetOf(shell, distributed, given);
  const isEnabled = (given: Given): boolean => target(given) !== null;
  const open = async (given: Given): Promise<readonly [NotebookPanel, RankConsole] | null> => {
    const panel = target(given);
    const rank = panel === null ? null : await rankOf(distributed, panel, given);
    return panel === null || rank === null ? null : [panel, await opened.show(panel, rank)];
  };
  commands.addCommand(CommandIDs.openConsole, {
    label: trans.__('Open a Console on a Rank…'),
    isEnabled,
    execute: async (given: Given) => void (await open(given)),
  });
  commands.addCommand(CommandIDs.runOnRank, {
    label: trans.__('Run Selected Text or Cell on One Rank…'),
    isEnabled: (given: Given) => isEnabled(given) && activeCode(target(given)) !== null,
    execute: async (given: Given) => {
      const panel = target(given);
      // Before the question takes the focus.
      const code = panel === null ? '' : selectedCode(panel);
      const found = code.trim() === '' ? null : await open(given);
      void found?.[1].content.inject(code);
    },
  });
  const changed = (): void => [CommandIDs.openConsole, CommandIDs.runOnRank].forEach((id) => commands.notifyCommandChanged(id));
  hub.changed.connect(changed);
  notebook.changed.connect(changed);
}

function addKeys({ commands }: JupyterFrontEnd, opened: Consoles, completions: ICompletionProviderManager | null): void {
  const add = (command: string, act: (page: RankConsole) => void): void => {
    commands.addCommand(command, { isVisible: () => false, execute: () => opened.focused !== null && act(opened.focused) });
  };
  add(CommandIDs.consoleRun, ({ content }) => void content.execute(true));
  add(CommandIDs.consoleComplete, ({ id }) => completions?.invoke(id));
  add(CommandIDs.consoleSelect, ({ id }) => completions?.select(id));
  add(CommandIDs.consoleInspect, (page) => page.inspect());
  add(CommandIDs.consoleInterrupt, (page) => void page.interrupt());
}
