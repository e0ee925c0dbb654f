// Elements without a framework: make one, change its text only when it differs.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

export const h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

export const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

export const by = (id) => document.getElementById(id);

/** Set an element's text; leave it alone if it has it, so that a selection survives and nothing is announced twice. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function mark(element, attribute, value) {
  if (element.getAttribute(attribute) !== value) element.setAttribute(attribute, value);
}

/** Let a button stay in the order of focus while it can do nothing. */
export function allow(button, possible) {
  mark(button, "aria-disabled", possible ? "false" : "true");
}

export const allowed = (button) => button.getAttribute("aria-disabled") !== "true";

/** Keep one part for each name: make the new ones, update all, remove those that are no longer there. */
export class Parts {
  #parts = new Map();

  constructor(parent, make) {
    this.parent = parent;
    this.make = make;
  }

  update(items, ...rest) {
    const names = new Set(items.map((item) => item.name));
    for (const [name, part] of this.#parts) {
      if (!names.has(name)) {
        part.element.remove();
        this.#parts.delete(name);
      }
    }
    for (const item of items) {
      if (!this.#parts.has(item.name)) {
        const part = this.make(item);
        this.#parts.set(item.name, part);
        this.parent.append(part.element);
      }
      this.#parts.get(item.name).update(item, ...rest);
    }
  }

  get(name) {
    return this.#parts.get(name);
  }
}
