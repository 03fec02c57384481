// What "run the selection" means in a notebook.
import { activeCode } from './distributed';
import type { NotebookPanel } from './panels';

/** Return the text that is selected in the active cell, or all of that cell; empty where it holds no code. */
export function selectedCode(panel: NotebookPanel): string {
  const cell = activeCode(panel);
  const source = cell?.model.sharedModel.getSource() ?? '';
  const editor = cell?.editor ?? null;
  if (editor === null) {
    return source;
  }
  const { start, end } = editor.getSelection();
  const [from, to] = [editor.getOffsetAt(start), editor.getOffsetAt(end)].sort((a, b) => a - b);
  return from === to ? source : source.slice(from, to);
}
