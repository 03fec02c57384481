// A mark on each cell that runs, or ran, on ranks: which, and what came of it.
import { signOf } from '../components/run_rows';
import { duration } from '../components/format';
import { setAttribute } from '../components/dom';
import type { CellMarks } from '../model/cell_marks';
import type { Notice } from '../model/notice';
import { isDistributed } from './distributed';
import type { NotebookPanel } from './panels';
import type { NotebookMode } from './whole_notebook';

const TYPING_MS = 150;

/** Keep the marks of a notebook's cells up to date until it is closed. */
export function markCells(panel: NotebookPanel, marks: CellMarks, mode: NotebookMode): void {
  let timer = 0;
  const { context, sessionContext } = panel;
  let { path } = context;
  const draw = (): void => {
    const kernel = sessionContext.session?.kernel?.id ?? null;
    for (const cell of panel.content.widgets) {
      const isOn = cell.model.type === 'code' && isDistributed(cell, mode.isWhole);
      cell.node.classList.toggle('ddl-distributed-cell', isOn);
      mark(cell.node, isOn ? marks.of(context.path, kernel, cell.model.id) : null);
    }
  };
  const later = (): void => {
    window.clearTimeout(timer);
    timer = window.setTimeout(draw, TYPING_MS);
  };
  panel.content.modelContentChanged.connect(later);
  panel.content.activeCellChanged.connect(later);
  marks.changed.connect(later);
  mode.changed.connect(later);
  sessionContext.kernelChanged.connect(later);
  context.pathChanged.connect((_, renamed) => {
    marks.move(path, renamed);
    path = renamed;
  });
  panel.disposed.connect(() => {
    window.clearTimeout(timer);
    marks.changed.disconnect(later);
  });
  void context.ready.then(later);
}

function mark(node: HTMLElement, notice: Notice | null): void {
  if (notice === null) {
    node.removeAttribute('data-ddl-mark');
    return;
  }
  const [sign, looks] = signOf(notice.state);
  const took = notice.seconds === null ? '' : ` ${duration(notice.seconds)}`;
  setAttribute(node, 'data-ddl-mark', `${sign} ${notice.ranks}${took}`);
  setAttribute(node, 'data-ddl-state', looks);
}
