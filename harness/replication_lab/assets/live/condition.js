// A link's condition as text, as in `lab toxic`, and the log scale of its slider.

export const SILENT = { cut: "cut", "black-hole": "black hole", "one-way": "one-way", reset: "reset" };

// The slider's steps: 0, then 0.1 to 300 ms, each a twelfth of a decade on, as round numbers.
const STEPS = [0, ...steps(0.1, 300, 12)];

function steps(least, most, perDecade) {
  const found = [];
  for (let at = 0; ; at += 1) {
    const value = least * 10 ** (at / perDecade);
    if (value > most) break;
    found.push(round(value));
  }
  if (found.at(-1) !== most) found.push(most);
  return [...new Set(found)];
}

// Two digits below 100 ms, steps of 10 ms above; the proxy delays by whole milliseconds from 1 ms on.
function round(value) {
  if (value < 1) return Math.round(value * 100) / 100;
  return value < 100 ? Math.round(value) : Math.round(value / 10) * 10;
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

/** Return the round trip in ms and the rate of a condition; null for the one that it does not set. */
export function parts(condition) {
  const trip = /(?:^|[-+])(\d+(?:\.\d+)?)ms/.exec(condition);
  const limit = /(\d+(?:\.\d+)?[kmg]bit)/.exec(condition);
  const silent = condition in SILENT;
  return { ms: silent ? null : trip ? Number(trip[1]) : 0, rate: silent ? "" : (limit?.[1] ?? ""), silent };
}

/** Return the condition of a round trip and a rate. Below 1 ms the proxy adds nothing. */
export function written(ms, rate) {
  const trip = ms >= 1 ? `${Math.round(ms)}ms` : "";
  return [trip, rate].filter(Boolean).join("+") || "none";
}

/** Return a condition in words. */
export function words(condition) {
  if (condition === "none") return "no delay";
  return SILENT[condition] ?? condition.replace(/(\d)(ms|[kmg]bit)/g, "$1 $2").replace("+", " + ");
}
