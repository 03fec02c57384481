// The height of a sidebar's first section: what it holds needs, as far as there is room.
import type { AccordionPanel } from '@lumino/widgets';

/** The others keep this part of the sidebar. */
const LEFT_TO_OTHERS = 0.35;
/** Of a list of ranks some stay in sight, in pixels, however low the window is. */
const LEAST_LIST = 90;

/** Keep the first section as high as its content, until a user moves its border.
 *
 * @param content what the section holds, whose height changes.
 */
export function fitFirstSection(accordion: AccordionPanel, content: HTMLElement): void {
  const fit = (): void => {
    const section = content.parentElement;
    const [first, ...others] = accordion.widgets;
    if (section === null || first === undefined || first.isHidden || others.every(({ isHidden }) => isHidden)) {
      return;
    }
    const room = accordion.widgets.reduce((sum, { node }) => sum + node.offsetHeight, 0);
    const { paddingTop, paddingBottom } = getComputedStyle(section);
    // A part of a pixel too little would be a scroll bar.
    const needed = Math.ceil(content.getBoundingClientRect().height + parseFloat(paddingTop) + parseFloat(paddingBottom)) + 1;
    if (room > 0) {
      // Where not all fits the list of ranks scrolls, and the section around it does not.
      const lists = [...content.querySelectorAll<HTMLElement>('.ddl-rank-list')].reduce((sum, { offsetHeight }) => sum + offsetHeight, 0);
      const left = Math.floor(room * (1 - LEFT_TO_OTHERS)) - (needed - lists);
      content.style.setProperty('--ddl-list-room', `${Math.max(LEAST_LIST, left)}px`);
      const part = Math.min(needed / room, 1 - LEFT_TO_OTHERS);
      accordion.setRelativeSizes([part, ...others.map(() => (1 - part) / others.length)]);
    }
  };
  const observer = new ResizeObserver(fit);
  observer.observe(content);
  observer.observe(accordion.node);
  accordion.handleMoved.connect(() => observer.disconnect());
}
