// The pages of the main area: a run, a run's whole logs, runs compared, where ranks are, and all clusters. The code of each kind is loaded when
// the first such page is opened.
import { ILabShell, ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { ReadonlyJSONObject } from '@lumino/coreutils';
import type { ClustersPage } from '../panels/clusters_page';
import type { ComparePage } from '../panels/compare_page';
import type { LogPage } from '../panels/log_page';
import type { RunPage } from '../panels/run_page';
import type { StacksPage } from '../panels/stacks_page';
import { CommandIDs, type Distributed, IDistributed, PluginIDs } from '../tokens';
import { type Given, textOf, textsOf } from './given';
import { Pages } from './page_area';
import { inPalette } from './palette';

export const pages: JupyterFrontEndPlugin<void> = {
  id: PluginIDs.pages,
  description: 'Pages of runs, logs, comparisons and stacks.',
  autoStart: true,
  requires: [IDistributed],
  optional: [ILayoutRestorer, ILabShell, ICommandPalette, IRenderMimeRegistry],
  activate: (
    app: JupyterFrontEnd,
    distributed: Distributed,
    restorer: ILayoutRestorer | null,
    lab: ILabShell | null,
    palette: ICommandPalette | null,
    rendermime: IRenderMimeRegistry | null,
  ): void => {
    // JupyterLab has pages beside the notebooks; Notebook 7, which shows one notebook only, below it.
    const area = lab === null ? 'down' : 'main';
    addRuns(app, distributed, new Pages<RunPage>(app.shell, area, 'runs'), restorer, rendermime);
    addLogs(app, distributed, new Pages<LogPage>(app.shell, area, 'logs'), restorer);
    addComparisons(app, distributed, new Pages<ComparePage>(app.shell, area, 'compared'), restorer);
    addStacks(app, distributed, new Pages<StacksPage>(app.shell, area, 'stacks'), restorer);
    addClusters(app, distributed, new Pages<ClustersPage>(app.shell, area, 'clusters'), restorer);
    inPalette(palette, distributed.trans, [CommandIDs.clusters]);
  },
};

/** What the command that opens a log gets for all ranks, and to show a fault. */
const ALL_RANKS = 'all';
const LAST_ERROR = 'last error';

type Restorer = ILayoutRestorer | null;

function addRuns(
  { commands }: JupyterFrontEnd,
  distributed: Distributed,
  shown: Pages<RunPage>,
  restorer: Restorer,
  rendermime: IRenderMimeRegistry | null,
): void {
  const { trans, server } = distributed;
  commands.addCommand(CommandIDs.openRun, {
    label: trans.__('Open Run'),
    execute: async (given: Given) => {
      const run = textOf(given, 'run');
      const [{ RunPage }, { RunDetailsModel }] = await Promise.all([import('../panels/run_page'), import('../model/run_details')]);
      const make = (): RunPage => new RunPage(distributed, new RunDetailsModel(server, run, distributed.hub), server, rendermime);
      return shown.show((page) => page.run === run, make, trans.__('Run %1', shortOf(run)));
    },
  });
  shown.restore(restorer, CommandIDs.openRun, ({ run }) => ({ run }));
}

function addLogs({ commands }: JupyterFrontEnd, distributed: Distributed, shown: Pages<LogPage>, restorer: Restorer): void {
  const { trans, server } = distributed;
  commands.addCommand(CommandIDs.openLog, {
    label: trans.__('Open Whole Log'),
    execute: async (given: Given) => {
      const run = textOf(given, 'run');
      const { rank } = given;
      const asked = rank === ALL_RANKS ? null : isRank(rank) ? Number(rank) : undefined;
      const [{ LogPage }, { LogModel }] = await Promise.all([import('../panels/log_page'), import('../model/log_model')]);
      const make = (): LogPage => new LogPage(distributed, new LogModel(server, run, asked === undefined ? 0 : asked), () => shown.save(page));
      const page = shown.show((one) => one.run === run, make, trans.__('Log %1', shortOf(run)));
      if (given['at'] === LAST_ERROR) {
        void page.content.showLastError(asked ?? null);
      } else if (asked !== undefined) {
        void page.content.showRank(asked);
      }
      return page;
    },
  });
  shown.restore(restorer, CommandIDs.openLog, ({ run, rank }) => ({ run, rank: rank ?? ALL_RANKS }), ({ run }) => run);
}

function isRank(given: unknown): given is number | string {
  return typeof given === 'number' || (typeof given === 'string' && /^\d+$/.test(given));
}

function addComparisons({ commands }: JupyterFrontEnd, distributed: Distributed, shown: Pages<ComparePage>, restorer: Restorer): void {
  const { trans, server, runs } = distributed;
  commands.addCommand(CommandIDs.compare, {
    label: trans.__('Compare Runs'),
    execute: async (given: Given) => {
      const compared = textsOf(given, 'runs');
      const [{ ComparePage }, { ComparisonModel }, { settingsOf }] = await Promise.all([
        import('../panels/compare_page'),
        import('../model/comparison'),
        import('../model/curve_view'),
      ]);
      const make = (): ComparePage => {
        const model = new ComparisonModel(server, runs, compared);
        return new ComparePage(distributed, model, settingsOf(given['view']), () => shown.save(page));
      };
      const name = compared.length === 2 ? trans.__('%1 and %2', ...compared.map(shortOf)) : trans.__('%1 runs', compared.length);
      const page = shown.show((one) => one.runs.join() === compared.join(), make, name);
      return page;
    },
  });
  const args = ({ runs: compared, view }: ComparePage): ReadonlyJSONObject => ({ runs: [...compared], view: { ...view.settings } });
  shown.restore(restorer, CommandIDs.compare, args, ({ runs: compared }) => compared.join(' '));
}

function addStacks({ commands }: JupyterFrontEnd, distributed: Distributed, shown: Pages<StacksPage>, restorer: Restorer): void {
  const { trans, server, hub } = distributed;
  commands.addCommand(CommandIDs.stacksOf, {
    label: trans.__('Show Where Ranks Are'),
    execute: async (given: Given) => {
      const kernel = textOf(given, 'kernel');
      const [{ StacksPage }, { StacksModel }] = await Promise.all([import('../panels/stacks_page'), import('../model/stacks_model')]);
      const make = (): StacksPage => new StacksPage(distributed, new StacksModel(server, hub, kernel));
      const page = shown.show((one) => one.kernel === kernel, make, trans.__('Stacks'));
      void page.content.look();
      return page;
    },
  });
  shown.restore(restorer, CommandIDs.stacksOf, ({ kernel }) => ({ kernel }));
}

function addClusters({ commands }: JupyterFrontEnd, { trans, server, ...context }: Distributed, shown: Pages<ClustersPage>, restorer: Restorer): void {
  commands.addCommand(CommandIDs.clusters, {
    label: trans.__('Show All Clusters'),
    execute: async () => {
      const [{ ClustersPage }, { OverviewModel }] = await Promise.all([import('../panels/clusters_page'), import('../model/overview_model')]);
      return shown.show(() => true, () => new ClustersPage({ trans, ...context }, new OverviewModel(server)), trans.__('All clusters'));
    },
  });
  shown.restore(restorer, CommandIDs.clusters, () => ({}), () => 'all');
}

/** Return the end of a run's id, which distinguishes it from others. */
function shortOf(run: string): string {
  return run.slice(-4);
}
