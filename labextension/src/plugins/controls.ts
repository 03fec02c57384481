// What goes to a kernel's control thread, and so works while a cell runs: interrupt, stop, restart, keep, stacks.
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { KernelState } from '../model/hub_messages';
import { isMeant, showProblem } from '../panels/dialogs';
import { CommandIDs, type Distributed, IDistributed, PluginIDs } from '../tokens';
import { inPalette } from './palette';
import { type Given, textOf } from './given';

type Control = 'interrupt' | 'stop' | 'restart' | 'keep';

export const controls: JupyterFrontEndPlugin<void> = {
  id: PluginIDs.controls,
  description: 'Commands that interrupt, restart and stop ranks, and show where they are.',
  autoStart: true,
  requires: [IDistributed],
  optional: [ICommandPalette],
  activate: ({ commands }: JupyterFrontEnd, distributed: Distributed, palette: ICommandPalette | null): void => {
    const { trans, hub, can } = distributed;
    const isEnabled = (given: Given): boolean => target(distributed, given) !== null;
    const add = (id: string, label: string, what: Control): void => {
      commands.addCommand(id, { label, isEnabled, execute: (given) => control(distributed, given, what) });
    };
    add(CommandIDs.interrupt, trans.__('Interrupt Ranks'), 'interrupt');
    add(CommandIDs.stop, trans.__('Stop Ranks…'), 'stop');
    add(CommandIDs.restart, trans.__('Restart Ranks…'), 'restart');
    add(CommandIDs.keep, trans.__('Keep Idle Ranks'), 'keep');
    commands.addCommand(CommandIDs.stacks, {
      label: trans.__('Show Where Ranks Are'),
      isEnabled: (given) => isEnabled(given) && can(CommandIDs.stacksOf),
      execute: (given) => {
        const state = target(distributed, given);
        return state === null ? null : commands.execute(CommandIDs.stacksOf, { kernel: state.kernel });
      },
    });
    const all = [CommandIDs.interrupt, CommandIDs.stop, CommandIDs.restart, CommandIDs.keep, CommandIDs.stacks];
    hub.changed.connect(() => all.forEach((id) => commands.notifyCommandChanged(id)));
    inPalette(palette, trans, all);
  },
};

/** Return the kernel that is named, else that of the notebook in front, else the only one that has ranks. */
function target({ hub, notebook }: Distributed, given: Given): KernelState | null {
  const kernels = hub.withRanks();
  const wanted = textOf(given, 'kernel') || (notebook.kernel?.id ?? '');
  return kernels.find(({ kernel }) => kernel === wanted) ?? (kernels.length === 1 ? kernels[0]! : null);
}

async function control(distributed: Distributed, given: Given, what: Control): Promise<void> {
  const { trans, server } = distributed;
  const state = target(distributed, given);
  if (state === null || !(await isConfirmed(state, what, distributed))) {
    return;
  }
  try {
    await server.control(state.kernel, what);
  } catch (error) {
    await showProblem(trans, error);
  }
}

/** Ask where something would be lost. */
async function isConfirmed(state: KernelState, what: Control, { trans, nameOf }: Distributed): Promise<boolean> {
  if (what === 'interrupt' || what === 'keep') {
    return true;
  }
  const { title, body } = question(state, what, trans, nameOf(state.kernel));
  return isMeant(title, body, what === 'stop' ? trans.__('Stop') : trans.__('Restart'));
}

/** What a stop or a restart ends: ranks, the start of some, or the batch job that brings them. */
function question(state: KernelState, what: Control, trans: TranslationBundle, where: string): { title: string; body: string } {
  const name = state.cluster?.name ?? '';
  const job = state.cluster?.job ?? null;
  if (what === 'stop' && state.cluster?.state === 'starting') {
    return job === null
      ? { title: trans.__('Stop the start of %1?', name), body: `${where}: ${trans.__('None of its ranks has run a cell.')}` }
      : { title: trans.__('Stop %1?', job), body: `${where}: ${trans.__('It leaves its queue, or ends; none of its ranks has run a cell.')}` };
  }
  const runs = state.run === null ? trans.__('No cell runs on them.') : trans.__('The cell that runs on them is interrupted.');
  const lost = trans.__('What their cells defined is lost.');
  const ends = what === 'stop' && job !== null ? ` ${trans.__('%1 ends with them.', job)}` : '';
  return {
    title: what === 'stop' ? trans.__('Stop the ranks of %1?', name) : trans.__('Restart the ranks of %1?', name),
    body: `${where}: ${runs} ${lost}${ends}`,
  };
}
