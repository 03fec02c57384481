// What users can have done: from the palette, the menu, the keyboard, and the panels' buttons.
import { Dialog, MainAreaWidget, showDialog, type WidgetTracker } from '@jupyterlab/apputils';
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ITooltipManager } from '@jupyterlab/tooltip';
import { UUID } from '@lumino/coreutils';
import { TabPanel, type Widget } from '@lumino/widgets';
import { ranksIcon } from './icons';
import type { KernelState } from './model/hub_messages';
import { showTooltip } from './notebook/asking';
import type { CurrentNotebook } from './notebook/current';
import { activeCode, isDistributed, toggle } from './notebook/distributed';
import { ExtensionLoader } from './notebook/extension';
import { ComparePage } from './panels/compare_page';
import { type Context, sentence } from './panels/context';
import { LogPage } from './panels/log_page';
import { RunPage } from './panels/run_page';
import { StacksPage } from './panels/stacks_page';
import { CommandIDs, PANEL } from './tokens';

/** The pages, which come back when the page is loaded again. */
export interface Pages {
  readonly stacks: WidgetTracker<MainAreaWidget<StacksPage>>;
  readonly runs: WidgetTracker<MainAreaWidget<RunPage>>;
  readonly logs: WidgetTracker<MainAreaWidget<LogPage>>;
  readonly compared: WidgetTracker<MainAreaWidget<ComparePage>>;
}

/** Where pages go: JupyterLab has them beside the notebooks; Notebook 7, which shows one notebook only, below it. */
export type PageArea = 'main' | 'down';

type Given = Readonly<Record<string, unknown>>;

const textOf = (given: Given, name: string): string => (typeof given[name] === 'string' ? given[name] : '');

export function addCommands(
  app: JupyterFrontEnd,
  context: Context,
  notebook: CurrentNotebook,
  pages: Pages,
  tooltips: ITooltipManager | null,
  focusForm: () => void,
  area: PageArea,
): void {
  const { commands, shell } = app;
  const { trans } = context;
  const loader = new ExtensionLoader(context.hub);
  const add = (id: string, label: string, execute: (given: Given) => unknown, more: object = {}): void => {
    commands.addCommand(id, { label, execute, ...more });
  };

  add(CommandIDs.showPanel, trans.__('Show Distributed Ranks'), () => shell.activateById(PANEL), { icon: ranksIcon });
  add(CommandIDs.start, trans.__('Start Ranks…'), () => {
    shell.activateById(PANEL);
    focusForm();
  });
  addControls(app, context, notebook);
  addPages(app, context, pages, area);

  add(
    CommandIDs.toggleDistributed,
    trans.__('Run Cell on Ranks'),
    () => {
      const { panel } = notebook;
      const cell = activeCode(panel);
      if (panel !== null && cell !== null) {
        toggle(cell);
        if (isDistributed(cell)) {
          loader.want(panel);
        }
        commands.notifyCommandChanged(CommandIDs.toggleDistributed);
      }
    },
    {
      icon: ranksIcon,
      caption: trans.__('Run this cell on the ranks (%1)', '%%distributed'),
      isEnabled: () => activeCode(notebook.panel) !== null,
      isToggleable: true,
      isToggled: () => isDistributed(activeCode(notebook.panel)),
    },
  );
  notebook.changed.connect(() => commands.notifyCommandChanged(CommandIDs.toggleDistributed));
  add(CommandIDs.tooltip, trans.__('Inspect a Name on Rank 0'), async () => {
    if (notebook.panel !== null && tooltips !== null) {
      await showTooltip(notebook.panel, tooltips, context.connection, context.hub);
    }
  });
}

/** What goes to a kernel's control thread, and so works while a cell runs. */
function addControls({ commands }: JupyterFrontEnd, context: Context, notebook: CurrentNotebook): void {
  const { trans, hub, connection } = context;
  const target = (given: Given): KernelState | null => {
    const kernels = hub.withRanks();
    const wanted = textOf(given, 'kernel') || (notebook.kernel?.id ?? '');
    return kernels.find(({ kernel }) => kernel === wanted) ?? (kernels.length === 1 ? kernels[0]! : null);
  };
  const isEnabled = (given: Given): boolean => target(given) !== null;
  const control = async (given: Given, what: 'interrupt' | 'stop' | 'restart'): Promise<void> => {
    const state = target(given);
    if (state === null || !(await isConfirmed(state, what, context))) {
      return;
    }
    try {
      await connection.control(state.kernel, what);
    } catch (error) {
      await showDialog({ title: trans.__('That did not work'), body: sentence(error), buttons: [Dialog.okButton()] });
    }
  };
  commands.addCommand(CommandIDs.interrupt, { label: trans.__('Interrupt Ranks'), isEnabled, execute: (given) => control(given, 'interrupt') });
  commands.addCommand(CommandIDs.stop, { label: trans.__('Stop Ranks…'), isEnabled, execute: (given) => control(given, 'stop') });
  commands.addCommand(CommandIDs.restart, { label: trans.__('Restart Ranks…'), isEnabled, execute: (given) => control(given, 'restart') });
  hub.changed.connect(() => {
    for (const id of [CommandIDs.interrupt, CommandIDs.stop, CommandIDs.restart, CommandIDs.stacks]) {
      commands.notifyCommandChanged(id);
    }
  });
  commands.addCommand(CommandIDs.stacks, {
    label: trans.__('Show Where Ranks Are'),
    isEnabled,
    execute: (given) => {
      const state = target(given);
      return state === null ? null : commands.execute(CommandIDs.stacksOf, { kernel: state.kernel });
    },
  });
}

/** Ask where something would be lost. */
async function isConfirmed(state: KernelState, what: 'interrupt' | 'stop' | 'restart', { trans, nameOf }: Context): Promise<boolean> {
  if (what === 'interrupt') {
    return true;
  }
  const name = state.cluster?.name ?? '';
  const where = nameOf(state.kernel);
  const runs = state.run === null ? trans.__('No cell runs on them.') : trans.__('The cell that runs on them is interrupted.');
  const lost = trans.__('What their cells defined is lost.');
  const { button } = await showDialog({
    title: what === 'stop' ? trans.__('Stop the ranks of %1?', name) : trans.__('Restart the ranks of %1?', name),
    body: `${where}: ${runs} ${lost}`,
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: what === 'stop' ? trans.__('Stop') : trans.__('Restart') })],
    // Enter must not end what cells defined.
    defaultButton: 0,
  });
  return button.accept;
}

function addPages({ commands, shell }: JupyterFrontEnd, context: Context, pages: Pages, area: PageArea): void {
  const { trans } = context;
  const bringForward = (page: Widget): void => {
    shell.activateById(page.id);
    // Notebook 7 shows its lower panel, whose tab in front stays another one.
    const tabs = page.parent?.parent;
    if (tabs instanceof TabPanel) {
      tabs.currentWidget = page;
    }
  };
  /** Bring a page to the front, made where it is not there yet. */
  const show = <T extends Widget>(
    tracker: WidgetTracker<MainAreaWidget<T>>,
    isIt: (page: T) => boolean,
    make: () => T,
    label: string,
  ): MainAreaWidget<T> => {
    const found = tracker.find(({ content }) => isIt(content));
    if (found !== undefined) {
      bringForward(found);
      return found;
    }
    const page = new MainAreaWidget({ content: make() });
    page.id = `jupyter-ddl-${UUID.uuid4()}`;
    page.title.label = label;
    page.title.icon = ranksIcon;
    page.title.closable = true;
    page.toolbar.hide();
    page.toggleClass('ddl-below', area === 'down');
    shell.add(page, area);
    void tracker.add(page);
    bringForward(page);
    return page;
  };
  commands.addCommand(CommandIDs.openRun, {
    label: trans.__('Open Run'),
    execute: (given) => {
      const run = textOf(given, 'run');
      return show(pages.runs, (page) => page.run === run, () => new RunPage(context, run), trans.__('Run %1', shortOf(run)));
    },
  });
  commands.addCommand(CommandIDs.openLog, {
    label: trans.__('Open Whole Log'),
    execute: (given) => {
      const run = textOf(given, 'run');
      const rank = typeof given['rank'] === 'number' ? given['rank'] : null;
      const make = (): LogPage => new LogPage(context, run, rank ?? 0, () => void pages.logs.save(page));
      const page = show(pages.logs, (one) => one.run === run, make, trans.__('Log %1', shortOf(run)));
      if (rank !== null) {
        page.content.showRank(rank);
      }
      return page;
    },
  });
  commands.addCommand(CommandIDs.compare, {
    label: trans.__('Compare Runs'),
    execute: (given) => {
      const [first, second] = [textOf(given, 'first'), textOf(given, 'second')];
      return show(
        pages.compared,
        (page) => page.first === first && page.second === second,
        () => new ComparePage(context, first, second),
        trans.__('%1 and %2', shortOf(first), shortOf(second)),
      );
    },
  });
  commands.addCommand(CommandIDs.stacksOf, {
    label: trans.__('Show Where Ranks Are'),
    execute: (given) => {
      const kernel = textOf(given, 'kernel');
      const page = show(pages.stacks, (shown) => shown.kernel === kernel, () => new StacksPage(context, kernel), trans.__('Stacks'));
      void page.content.look();
      return page;
    },
  });
}

/** Return the end of a run's id, which tells it from others. */
function shortOf(run: string): string {
  return run.slice(-4);
}
