// Pages of one kind: where they are shown, each once, and how they come back when JupyterLab is loaded again.
import type { ILayoutRestorer, JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { type ReadonlyJSONObject, UUID } from '@lumino/coreutils';
import { TabPanel, type Widget } from '@lumino/widgets';
import { ranksIcon } from '../icons';
import { NAMESPACE } from '../tokens';

export class Pages<T extends Widget> {
  private readonly tracker: WidgetTracker<MainAreaWidget<T>>;

  constructor(
    private readonly shell: JupyterFrontEnd.IShell,
    private readonly area: 'main' | 'down',
    kind: string,
  ) {
    this.tracker = new WidgetTracker({ namespace: `${NAMESPACE}-${kind}` });
  }

  /** Bring a page to the front, made where it is not there yet. */
  show(isIt: (page: T) => boolean, make: () => T, label: string): MainAreaWidget<T> {
    const found = this.tracker.find(({ content }) => isIt(content));
    const page = found ?? this.add(make(), label);
    this.bringForward(page);
    return page;
  }

  /** Keep what a page shows, which has changed, for when it comes back. */
  save(page: MainAreaWidget<T>): void {
    void this.tracker.save(page);
  }

  /** Have pages come back by a command.
   *
   * @param args returns the command's arguments of a page.
   * @param name returns what identifies a page; by default its arguments.
   */
  restore(
    restorer: ILayoutRestorer | null,
    command: string,
    args: (page: T) => ReadonlyJSONObject,
    name: (page: T) => string = (page) => Object.values(args(page)).join(' '),
  ): void {
    void restorer?.restore(this.tracker, { command, args: ({ content }) => args(content), name: ({ content }) => name(content) });
  }

  private add(content: T, label: string): MainAreaWidget<T> {
    const page = new MainAreaWidget({ content });
    page.id = `${NAMESPACE}-${UUID.uuid4()}`;
    page.title.label = label;
    page.title.icon = ranksIcon;
    page.title.closable = true;
    page.toolbar.hide();
    page.toggleClass('ddl-below', this.area === 'down');
    this.shell.add(page, this.area);
    void this.tracker.add(page);
    return page;
  }

  private bringForward(page: Widget): void {
    this.shell.activateById(page.id);
    // Notebook 7 shows its lower panel, whose tab in front stays another one.
    const tabs = page.parent?.parent;
    if (tabs instanceof TabPanel) {
      tabs.currentWidget = page;
    }
  }
}
