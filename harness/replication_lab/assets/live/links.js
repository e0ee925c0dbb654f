// The controls of the links: a slider for the round trip, the rate, and what breaks a link. Asked and measured beside it.

import { allow, allowed, h, mark, say } from "./dom.js";
import { changeLink, Newest, refusal } from "./ask.js";
import { chip, milliseconds } from "./figures.js";
import { atStep, LAST_STEP, MIXED, parts, placeOf, SILENT, stepOf, words, written } from "./condition.js";

const RATES = ["", "1mbit", "5mbit", "20mbit", "100mbit"];
const TICKS = [0, 1, 10, 100, 300];
// How long the thumb stays where the reader put it while no state has confirmed it.
const PATIENCE_MS = 4000;

/** The controls of one link, or of all links of `names` at once. `moved(names, ms)` is called at each step. */
export class LinkControls {
  constructor({ name, title }, toxics, moved) {
    this.name = name;
    this.moved = moved;
    this.names = [name];
    this.sender = new Newest((condition) => this.#send(condition), (answer) => this.#answered(answer));
    const label = `Round trip of ${title}`;
    this.slider = h("input", { type: "range", min: 0, max: LAST_STEP, step: 1, "aria-label": label, oninput: () => this.#slide() });
    this.output = h("output", { class: "wanted" });
    this.needle = h("span", { class: "needle" });
    this.asked = h("b");
    this.measured = h("b");
    this.proof = h("span", { class: "chip" });
    this.says = h("p", { class: "says small" });
    this.refused = h("p", { class: "refused", role: "alert" });
    this.rate = h("select", { "aria-label": `Bandwidth of ${title}`, onchange: () => this.#put(written(this.ms, this.rate.value)) },
      ...RATES.map((rate) => h("option", { value: rate }, rate ? words(rate) : "no limit")));
    this.named = h("select", { "aria-label": `Condition of ${title} by name`, onchange: () => this.#byName() });
    this.buttons = Object.entries(SILENT).map(([condition, text]) => this.#button(condition, text, title));
    this.restore = h("button", { type: "button", "aria-label": `Restore ${title}`, onclick: () => allowed(this.restore) && this.#put(null) }, "Restore");
    this.element = h("article", { class: "card control", id: `link-${name}`, tabindex: -1, "aria-label": title },
      h("div", { class: "heading" }, h("h3", {}, title), this.proof),
      h("p", { class: "figures" }, "requested ", this.asked, ", measured ", this.measured),
      h("div", { class: "slide" }, h("div", { class: "track" }, this.slider, scale(this.needle)), this.output),
      h("div", { class: "buttons", role: "group", "aria-label": `Break ${title}` }, ...this.buttons, this.restore),
      h("details", {}, h("summary", {}, "Bandwidth, and conditions by name"),
        h("div", { class: "buttons" }, h("label", {}, "Bandwidth ", this.rate), h("label", {}, "By name ", this.named))),
      this.says, this.refused);
    this.#menu(toxics);
  }

  #menu(toxics) {
    this.named.replaceChildren(h("option", { value: "" }, "choose"),
      ...toxics.map(({ name, about }) => h("option", { value: name, title: about }, name)));
  }

  #button(condition, text, title) {
    const name = text[0].toUpperCase() + text.slice(1);
    const act = () => this.#put(button.getAttribute("aria-pressed") === "true" ? null : condition);
    const button = h("button", { type: "button", "aria-pressed": "false", "aria-label": `${name} ${title}`, onclick: () => allowed(button) && act() }, name);
    button.condition = condition;
    return button;
  }

  /** Send what the slider and the rate say; the law's line moves at once, the state follows from the stream. */
  #slide() {
    const ms = atStep(Number(this.slider.value));
    this.#wanted(ms);
    this.moved(this.names, ms);
    this.#put(written(ms, this.rate.value));
  }

  #byName() {
    if (this.named.value) this.#put(this.named.value);
    this.named.value = "";
  }

  /** Ask for a condition; null restores the start's, whose round trip the slider takes from the next state. */
  #put(condition) {
    this.held = condition === null ? 0 : performance.now() + PATIENCE_MS;
    this.pending = condition;
    this.sender.put(condition);
  }

  async #send(condition) {
    const answers = await Promise.all(this.names.map((name) => changeLink(name, condition)));
    return answers.find((answer) => !answer.ok) ?? answers[0];
  }

  #answered(answer) {
    say(this.refused, answer.ok ? "" : refusal(answer));
    if (!answer.ok) this.held = 0;
  }

  #wanted(ms) {
    this.ms = ms;
    const text = ms === 0 ? "no delay" : ms < 1 ? `${milliseconds(ms)}: no delay is added` : milliseconds(ms);
    say(this.output, ms === 0 ? "0 ms" : milliseconds(ms));
    mark(this.slider, "aria-valuetext", text);
  }

  update(link, alive) {
    this.names = link.names ?? [link.name];
    if (this.ms === undefined) this.#follow(parts(link.was).ms ?? link.measured_ms ?? 0, "");
    const { ms, rate } = parts(link.asked);
    if (link.asked === this.pending) this.held = 0;
    if (performance.now() > (this.held ?? 0)) this.#follow(ms, rate);
    say(this.asked, words(link.asked));
    say(this.measured, link.range ?? (link.measured_ms == null ? "no answer" : milliseconds(link.measured_ms)));
    this.needle.hidden = link.measured_ms == null;
    this.needle.style.left = `${placeOf(link.measured_ms ?? 0) * 100}%`;
    this.#prove(link);
    for (const button of this.buttons) mark(button, "aria-pressed", String(button.condition === link.asked));
    mark(this.restore, "title", `the condition at the start: ${words(link.was)}`);
    for (const button of this.buttons) allow(button, alive);
    allow(this.restore, alive && link.asked !== link.was);
    this.slider.disabled = this.rate.disabled = this.named.disabled = !alive;
  }

  /** Let slider and rate show what the lab was last asked for, also by another browser. */
  #follow(ms, rate) {
    this.pending = undefined;
    if (ms !== null) {
      const step = String(stepOf(ms));
      if (this.slider.value !== step) this.slider.value = step;
      this.#wanted(ms);
    }
    if (![...this.rate.options].some((option) => option.value === rate)) this.rate.add(new Option(words(rate), rate));
    this.rate.value = rate;
  }

  #prove({ seen, says, busy }) {
    const level = seen === false ? "bad" : seen ? "good" : "warn";
    mark(this.proof, "class", chip(level));
    say(this.proof, seen === false ? "✕ no effect seen" : seen ? "✓ verified" : busy ? "… checking" : "… not checked yet");
    say(this.says, says);
    mark(this.says, "class", seen === false ? "says failed" : "says small");
  }
}

/** Return the numbers below the slider, with a needle at the measured round trip. */
function scale(needle) {
  return h("span", { class: "scale", "aria-hidden": "true" }, needle, ...TICKS.map((ms) => {
    const tick = h("span", {}, String(ms));
    tick.style.left = `${placeOf(ms) * 100}%`;
    return tick;
  }));
}

/** Return one link that stands for all of them, if there are several. */
export function together(links) {
  if (links.length < 2) return [];
  const one = (values, mixed) => (new Set(values).size === 1 ? values[0] : mixed);
  const measured = links.map((link) => link.measured_ms).filter((ms) => ms != null);
  const unseen = links.filter((link) => link.seen === false).map((link) => link.name);
  const low = Math.min(...measured);
  const high = Math.max(...measured);
  return [{
    name: "all",
    names: links.map((link) => link.name),
    asked: one(links.map((link) => link.asked), MIXED),
    was: one(links.map((link) => link.was), MIXED),
    measured_ms: measured.length ? measured.reduce((sum, ms) => sum + ms) / measured.length : null,
    range: measured.length ? `${milliseconds(low)} to ${milliseconds(high)}` : "no answer",
    seen: unseen.length ? false : links.every((link) => link.seen) ? true : null,
    says: unseen.length ? `No effect seen: ${unseen.join(", ")}` : "",
    busy: links.some((link) => link.busy),
  }];
}
