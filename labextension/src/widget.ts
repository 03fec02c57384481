// The anywidget's entry: joins the kernel's widget, the model and the dashboard. One model for all views of a widget.
import type { AnyModel } from './anywidget';
import { Dashboard } from './components/dashboard';
import './dashboard.css';
import { Feed, unpacked } from './model/feed';
import { ENGLISH } from './model/words';

interface Traits {
  readonly batch: DataView | null;
  readonly history: DataView | null;
}

// A busy kernel does not answer; the next history comes without a request.
const ASK_AGAIN_MS = 5000;

/** anywidget calls this once for each widget, however many views it has. */
export default function widget(): {
  initialize: (context: { model: AnyModel<Traits> }) => () => void;
  render: (context: { el: HTMLElement }) => () => void;
} {
  const feed = new Feed();
  const views = new Set<Dashboard>();

  return {
    initialize({ model }) {
      let asked = -Infinity;
      const changed = (): void => {
        for (const view of views) {
          view.update(feed.model);
        }
        if (feed.isBehind && performance.now() - asked > ASK_AGAIN_MS) {
          asked = performance.now();
          model.send({ want: 'history' });
        }
      };
      // One after the other: what comes while a history is being unpacked belongs after it.
      let taken = Promise.resolve();
      const inTurn = (take: () => boolean | Promise<boolean>): void => {
        taken = taken
          .then(async () => {
            if (await take()) {
              changed();
            }
          })
          .catch((error: unknown) => console.error('jupyter_ddl:', error));
      };
      const onBatch = (): void => {
        // For traces of the page; it would be kept for good otherwise.
        performance.mark('ddl-batch');
        performance.clearMarks('ddl-batch');
        const bytes = model.get('batch');
        inTurn(() => feed.takeBatch(bytes));
      };
      const onHistory = (): void => {
        const bytes = model.get('history');
        inTurn(async () => feed.needsHistory && feed.takeHistory(await unpacked(bytes)));
      };
      model.on('change:batch', onBatch);
      model.on('change:history', onHistory);
      onHistory();
      onBatch();
      return () => {
        model.off('change:batch', onBatch);
        model.off('change:history', onHistory);
      };
    },

    render({ el }) {
      const view = new Dashboard(ENGLISH);
      el.append(view.element);
      view.attach();
      views.add(view);
      view.update(feed.model);
      return () => {
        views.delete(view);
        view.destroy();
      };
    },
  };
}
