// Consoles on single ranks, and cells or selections that run in one. Their code is loaded when one is opened.
import { ILabShell, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, ICommandPalette, InputDialog, showDialog } from '@jupyterlab/apputils';
import { IEditorServices } from '@jupyterlab/codeeditor';
import { ICompletionProviderManager } from '@jupyterlab/completer';
import { ITooltipManager } from '@jupyterlab/tooltip';
import { ranksIcon } from '../icons';
import { activeCode } from '../notebook/distributed';
import { asNotebook, type NotebookPanel } from '../notebook/panels';
import type { RankConsole } from '../notebook/rank_console';
import { selectedCode } from '../notebook/selection';
import { CommandIDs, type Distributed, IDistributed, PluginIDs } from '../tokens';
import { type Given, textOf } from './given';
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

/** Return the notebook whose kernel is named, else the one in front; null where that has no ranks. */
function targetOf(shell: JupyterFrontEnd.IShell, { hub, notebook }: Distributed, given: Given): NotebookPanel | null {
  const kernel = textOf(given, 'kernel');
  const idOf = (panel: NotebookPanel): string => panel.sessionContext.session?.kernel?.id ?? '';
  const open = [...shell.widgets('main')].map(asNotebook).filter((panel) => panel !== null);
  const panel = kernel === '' ? notebook.panel : (open.find((one) => idOf(one) === kernel) ?? null);
  return panel !== null && hub.withRanks().some((one) => one.kernel === idOf(panel)) ? panel : null;
}

/** Return the rank that is named, or that the user chooses; null where none is. */
async function rankOf({ trans, hub }: Distributed, panel: NotebookPanel, given: Given): Promise<number | null> {
  const size = hub.kernels.get(panel.sessionContext.session?.kernel?.id ?? '')?.cluster?.world_size ?? 0;
  const named = Number(given['rank'] ?? NaN);
  if (Number.isInteger(named) && named >= 0 && named < size) {
    return named;
  }
  if (size === 0) {
    await showDialog({ title: trans.__('There are no ranks yet'), buttons: [Dialog.okButton()] });
    return null;
  }
  const { value } = await InputDialog.getItem({ title: trans.__('On which rank?'), items: Array.from({ length: size }, (_, rank) => String(rank)) });
  return value === null ? null : Number(value);
}
