// A link's condition as text, as in `lab toxic`, and the log scale of its slider.

export const SILENT = { cut: "cut", "black-hole": "black hole", "one-way": "one-way", reset: "reset" };

// The slider's steps: 0, then 0.1 to 300 ms, about a twelfth of a decade apart, as round numbers.
const TWELFTHS = [1, 1.2, 1.5, 1.8, 2, 2.5, 3, 4, 5, 6, 7, 8.5];
const STEPS = [0, ...new Set([0.1, 1, 10, 100].flatMap((decade) => TWELFTHS.map((part) => round(part * decade))))].filter((ms) => ms <= 300);

// From 1 ms on the proxy delays by whole milliseconds.
function round(ms) {
  return ms < 1 ? Math.round(ms * 100) / 100 : Math.round(ms);
}

export const LAST_STEP = STEPS.length - 1;

export const atStep = (step) => STEPS[step];

/** Return the step that is nearest to a round trip, on the log scale. */
export function stepOf(ms) {
  if (ms < STEPS[1] / 2) return 0;
  const away = (step) => Math.abs(Math.log(STEPS[step] / ms));
  let best = 1;
  for (let step = 1; step <= LAST_STEP; step += 1) if (away(step) < away(best)) best = step;
  return best;
}

/** Return where a round trip is on the slider, from 0 to 1, between the steps too. */
export function placeOf(ms) {
  if (ms <= 0) return 0;
  if (ms >= STEPS[LAST_STEP]) return 1;
  let step = 1;
  while (STEPS[step] < ms) step += 1;
  const from = STEPS[step - 1] || STEPS[1] / 2;
  const part = (Math.log(ms) - Math.log(from)) / (Math.log(STEPS[step]) - Math.log(from));
  return (step - 1 + Math.min(1, Math.max(0, part))) / LAST_STEP;
}

// What several links are asked for, if it is not the same.
export const MIXED = "different conditions";

/** Return the round trip in ms and the rate of a condition; null for the one that it does not set. */
export function parts(condition) {
  const trip = /(?:^|[-+])(\d+(?:\.\d+)?)ms/.exec(condition);
  const limit = /(\d+(?:\.\d+)?[kmg]bit)/.exec(condition);
  const silent = condition in SILENT || condition === MIXED;
  return { ms: silent ? null : trip ? Number(trip[1]) : 0, rate: silent ? "" : (limit?.[1] ?? "") };
}

/** Return the condition of a round trip and a rate. Below 1 ms the proxy adds nothing. */
export function written(ms, rate) {
  const trip = ms >= 1 ? `${Math.round(ms)}ms` : "";
  return [trip, rate].filter(Boolean).join("+") || "none";
}

/** Return a condition in words. */
export function words(condition) {
  if (condition === "none") return "no delay";
  if (!/^\d/.test(condition)) return SILENT[condition] ?? condition;
  return condition.replace(/(\d)(ms|[kmg]bit)/g, "$1 $2").replace("+", " + ");
}
