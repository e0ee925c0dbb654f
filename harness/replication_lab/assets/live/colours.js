// The theme's colours as a canvas needs them. They change with the system's setting, or with the reader's choice.

const known = new Map();
const watchers = new Set();
const probe = document.createElement("span");
probe.hidden = true;
document.documentElement.append(probe);

/** Return a variable of theme.css, such as "series-1", as rgb(). */
export function colour(name) {
  if (!known.has(name)) {
    probe.style.color = `var(--${name})`;
    known.set(name, getComputedStyle(probe).color);
  }
  return known.get(name);
}

/** Return the dash of a series as a canvas takes it. */
export function dash(index) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(`--dash-${index}`).trim();
  return text === "none" ? [] : text.split(/\s+/).map(Number);
}

export const onChange = (watcher) => watchers.add(watcher);

function changed() {
  known.clear();
  for (const watcher of watchers) watcher();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);

export function choose(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  changed();
}
