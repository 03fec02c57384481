// A mark on each cell that runs, or ran, on ranks: which, and what came of it.
import { signOf } from '../components/run_rows';
import { duration } from '../components/format';
import { setAttribute } from '../components/dom';
import type { HubModel } from '../model/hub';
import type { RunNotice } from '../model/hub_messages';
import { isDistributed } from './distributed';
import type { NotebookPanel } from './panels';

const TYPING_MS = 150;

/** Keep the marks of a notebook's cells as they are told of, until it is closed. */
export function markCells(panel: NotebookPanel, hub: HubModel): void {
  let timer = 0;
  const draw = (): void => {
    for (const cell of panel.content.widgets) {
      const isOn = cell.model.type === 'code' && isDistributed(cell);
      cell.node.classList.toggle('ddl-distributed-cell', isOn);
      mark(cell.node, isOn ? (hub.cells.get(cell.model.id) ?? null) : null);
    }
  };
  const later = (): void => {
    window.clearTimeout(timer);
    timer = window.setTimeout(draw, TYPING_MS);
  };
  panel.content.modelContentChanged.connect(later);
  panel.content.activeCellChanged.connect(later);
  hub.noticed.connect(later);
  hub.remembered.connect(later);
  panel.disposed.connect(() => {
    window.clearTimeout(timer);
    hub.noticed.disconnect(later);
    hub.remembered.disconnect(later);
  });
  void panel.context.ready.then(later);
}

function mark(node: HTMLElement, notice: RunNotice | null): void {
  if (notice === null) {
    node.removeAttribute('data-ddl-mark');
    return;
  }
  const [sign, looks] = signOf(notice.state);
  const took = notice.seconds === null ? '' : ` ${duration(notice.seconds)}`;
  setAttribute(node, 'data-ddl-mark', `${sign} ${notice.ranks}${took}`);
  setAttribute(node, 'data-ddl-state', looks);
}
