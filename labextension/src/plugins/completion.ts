// Completion and Shift-Tab in cells that run on ranks.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICompletionProviderManager } from '@jupyterlab/completer';
import { ITooltipManager } from '@jupyterlab/tooltip';
import { RankCompletions, showTooltip } from '../notebook/completion';
import { CommandIDs, type Distributed, IDistributed, PluginIDs } from '../tokens';

export const completion: JupyterFrontEndPlugin<void> = {
  id: PluginIDs.completion,
  description: "Completion and inspection of rank 0's names in cells that run on ranks.",
  autoStart: true,
  requires: [IDistributed],
  optional: [ICompletionProviderManager, ITooltipManager],
  activate: (
    { commands }: JupyterFrontEnd,
    { trans, server, hub, notebook }: Distributed,
    completions: ICompletionProviderManager | null,
    tooltips: ITooltipManager | null,
  ): void => {
    completions?.registerProvider(new RankCompletions(server, hub));
    commands.addCommand(CommandIDs.tooltip, {
      label: trans.__('Inspect a Name on Rank 0'),
      execute: async () => {
        if (notebook.panel !== null && tooltips !== null) {
          await showTooltip(notebook.panel, tooltips, server, hub);
        }
      },
    });
  },
};
