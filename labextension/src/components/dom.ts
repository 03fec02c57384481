// Elements in few words. Text goes in as text nodes, and only so.

type Attributes = Readonly<Record<string, string>>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  if (tag === 'button') {
    // In a form it would send that.
    element.setAttribute('type', 'button');
  }
  for (const [name, value] of Object.entries(attributes)) {
    element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Set text, leaving the page alone when it is the same. */
export function setText(element: HTMLElement, text: string): void {
  const only = element.firstChild;
  if (only instanceof Text && only === element.lastChild) {
    // A new node would make the page recompute its styles.
    if (only.data !== text) {
      only.data = text;
    }
  } else if (element.textContent !== text) {
    element.textContent = text;
  }
}

export function setAttribute(element: Element, name: string, value: string): void {
  if (element.getAttribute(name) !== value) {
    element.setAttribute(name, value);
  }
}

/** Hide or show; setting an unchanged value would make the page recompute its styles. */
export function setHidden(element: HTMLElement, isHidden: boolean): void {
  if (element.hidden !== isHidden) {
    element.hidden = isHidden;
  }
}
