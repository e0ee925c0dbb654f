// Numbers as text: three significant digits, a narrow space between thousands, a dash for what is not known.

const THREE = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SPACE = "\u202f";
export const UNKNOWN = "–";

const spaced = (text) => text.replaceAll(",", SPACE);

export function number(value) {
  if (value == null) return UNKNOWN;
  return spaced(Math.abs(value) < 1000 ? THREE.format(value) : WHOLE.format(value));
}

export const count = (value) => (value == null ? UNKNOWN : spaced(WHOLE.format(value)));

export const rate = (value) => (value == null ? UNKNOWN : `${number(value)}/s`);

export function milliseconds(value) {
  if (value == null) return UNKNOWN;
  return value < 10_000 ? `${number(value)} ms` : `${number(value / 1000)} s`;
}

export const seconds = (value) => (value == null ? UNKNOWN : `${number(value)} s`);

/** Return a time since the start of the view as minutes and seconds. */
export function clock(at) {
  const whole = Math.max(0, Math.floor(at));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

const MARKS = { good: "✓", warn: "!", bad: "✕", unknown: "?" };
const CHIPS = { good: "good", warn: "doubt", bad: "bad", unknown: "" };

export const symbol = (level) => MARKS[level] ?? "?";

export const chip = (level) => `chip ${CHIPS[level] ?? ""}`;
