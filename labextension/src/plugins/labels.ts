// What is done with one run: its name, note and tags, back to its cell, the file for support. The code is loaded when one
// of these is asked for.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { sentence } from '../model/server';
import type { Label } from '../model/run_labels';
import { CommandIDs, type Distributed, IDistributed, PluginIDs } from '../tokens';
import { type Given, textOf } from './given';

export const labels: JupyterFrontEndPlugin<void> = {
  id: PluginIDs.labels,
  description: 'Commands that name, annotate and tag a run, go back to its cell, and make its file for support.',
  autoStart: true,
  requires: [IDistributed],
  activate: (app: JupyterFrontEnd, { trans, server }: Distributed): void => {
    const { commands } = app;
    const add = (id: string, label: string, execute: (run: string) => Promise<string>): void => {
      commands.addCommand(id, { label, execute: (given: Given) => execute(textOf(given, 'run')) });
    };
    const addLabel = (id: string, text: string, label: Label): void =>
      add(id, text, async (run) => (await import('../panels/run_actions')).askForLabel(server, trans, run, label));
    addLabel(CommandIDs.renameRun, trans.__('Rename Run…'), 'name');
    addLabel(CommandIDs.noteRun, trans.__('Note on Run…'), 'note');
    addLabel(CommandIDs.tagRun, trans.__('Tags of Run…'), 'tags');
    add(CommandIDs.goToCell, trans.__('Go to the Cell of a Run'), async (run) => {
      try {
        const [{ goToCell }, details] = await Promise.all([import('../panels/run_actions'), server.run(run)]);
        return await goToCell(app, trans, details);
      } catch (error) {
        return sentence(error);
      }
    });
    add(CommandIDs.reportRun, trans.__('Report on Run…'), async (run) => {
      await (await import('../panels/run_actions')).offerReport(server, run, trans);
      return '';
    });
  },
};
