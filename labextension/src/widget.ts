// The anywidget's entry: joins the kernel's widget, the model and the dashboard. One model for all views of a widget.
import type { AnyModel } from './anywidget';
import { Dashboard } from './components/dashboard';
import './dashboard.css';
import { KernelFeed } from './model/kernel_feed';
import { ENGLISH } from './model/words';

interface Traits {
  readonly batch: DataView | null;
  readonly history: DataView | null;
}

/** anywidget calls this once for each widget, however many views it has. */
export default function widget(): {
  initialize: (context: { model: AnyModel<Traits> }) => () => void;
  render: (context: { el: HTMLElement; model: AnyModel<Traits> }) => () => void;
} {
  const views = new Set<Dashboard>();
  let feed: KernelFeed;

  return {
    initialize({ model }) {
      const draw = (): void => views.forEach((view) => view.update(feed.model));
      feed = new KernelFeed(draw, () => model.send({ want: 'history' }));
      const onBatch = (): void => feed.takeBatch(model.get('batch'));
      const onHistory = (): void => feed.takeHistory(model.get('history'));
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
      feed.view(true);
      return () => {
        views.delete(view);
        view.destroy();
        feed.view(views.size > 0);
      };
    },
  };
}
