// Which keys stay within a part of ours, and which are JupyterLab's wherever the focus is.

/** With Ctrl or Cmd these edit a text, or choose all of it: JupyterLab would take them for its cells. */
const EDITING: ReadonlySet<string> = new Set(['a', 'c', 'v', 'x', 'y', 'z']);
/** And these move in a text, with Shift too, which chooses what is passed. */
const MOVING: ReadonlySet<string> = new Set([
  ...['arrowdown', 'arrowleft', 'arrowright', 'arrowup', 'backspace', 'delete', 'end', 'home', 'insert'],
  'z',
]);
const FUNCTION_KEY = /^f\d{1,2}$/;

/** Whether a key types, moves or edits where the focus is; all others are JupyterLab's: to save, for the palette. */
export function isOwnKey(event: Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey' | 'shiftKey'>): boolean {
  const key = event.key.toLowerCase();
  if (event.ctrlKey || event.metaKey) {
    // With Shift a letter is another command: Ctrl Shift C is the palette's.
    return !event.altKey && (MOVING.has(key) || (!event.shiftKey && EDITING.has(key)));
  }
  return !event.altKey && !FUNCTION_KEY.test(key);
}

/** Keep what is typed in an element from the shortcuts of what is around it, and let all other keys through.
 *
 * JupyterLab looks at keys when they have come up to the document. `data-lm-suppress-shortcuts`, which it heeds too, would
 * keep all of them from it: Ctrl S would be the browser's.
 */
export function keepTyping(element: HTMLElement): void {
  element.addEventListener('keydown', (event) => {
    if (isOwnKey(event)) {
      event.stopPropagation();
    }
  });
}
