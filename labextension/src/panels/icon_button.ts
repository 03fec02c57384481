// A button that is an icon, with a name for those who do not see it and a tooltip for those who do.
import type { LabIcon } from '@jupyterlab/ui-components';
import { h } from '../components/dom';

/** @param title the tooltip, where it says more than the name. */
export function iconButton(icon: LabIcon, name: string, title = name): HTMLButtonElement {
  const made = h('button', { class: 'ddl-icon-button', title, 'aria-label': name });
  icon.element({ container: made, height: '16px', width: '16px', display: 'block' });
  return made;
}
