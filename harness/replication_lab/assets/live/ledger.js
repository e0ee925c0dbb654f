// What the clients wrote and what is left of it, and the figures of the last second.

import { by, h, mark, say } from "./dom.js";
import { checkLedger, refusal } from "./ask.js";
import { clock, count, milliseconds, rate } from "./figures.js";

class Tile {
  constructor(label) {
    this.value = h("b");
    this.note = h("span", { class: "small" });
    this.element = h("div", { class: "tile card" }, h("span", { class: "small" }, label), this.value, this.note);
  }

  update(value, note, level = "") {
    say(this.value, value);
    say(this.note, note);
    mark(this.value, "class", level);
  }
}

/** The four figures that are always in sight. */
export class Tiles {
  constructor(parent) {
    this.commits = new Tile("Commits");
    this.law = new Tile("Ceiling");
    this.slowest = new Tile("p99 latency");
    this.lost = new Tile("Acknowledged rows lost");
    parent.append(...[this.commits, this.law, this.slowest, this.lost].map(({ element }) => element));
  }

  update({ sample, load, ledger }) {
    this.commits.update(rate(sample.commits_per_s), sample.errors_per_s > 0 ? `${rate(sample.errors_per_s)} errors` : "no errors", sample.errors_per_s > 0 ? "bad" : "");
    this.law.update(rate(sample.law_per_s), sample.law_per_s == null ? "no ceiling applies now" : limit(sample, load));
    const n = sample.latency?.n ?? 0;
    // Of fewer commits the 99th percentile is no more than the slowest one.
    this.slowest.update(milliseconds(sample.latency?.p99_ms ?? null), n < 100 ? `the slowest of ${count(n)} commits` : `of ${count(n)} commits`);
    this.lost.update(count(ledger.lost), checked(ledger), levelOf(ledger));
  }
}

function limit(sample, load) {
  const capped = load.rate > 0 && sample.law_per_s >= load.rate * 0.999;
  return capped ? "the limit on the rate" : `${load.clients} client${load.clients > 1 ? "s" : ""} / round trip`;
}

function checked({ checking, checked_at, checked_on }) {
  if (checking) return "checking";
  return checked_at == null ? "not checked yet" : `checked at ${clock(checked_at)} on ${checked_on}`;
}

const levelOf = ({ lost }) => (lost == null ? "" : lost > 0 ? "bad" : "good");

const ROWS = { sent: "sent", acknowledged: "acknowledged", failed: "refused", unknown: "unknown", in_flight: "waiting for an answer" };

export class LedgerPanel {
  constructor(parent) {
    this.cells = Object.fromEntries(Object.keys(ROWS).map((name) => [name, h("dd", { class: "number" })]));
    this.lost = h("dd", { class: "number" });
    this.missing = h("p", { class: "small" });
    this.says = h("p", { class: "says" });
    this.refused = h("p", { class: "refused", role: "alert" });
    this.button = by("check");
    this.button.addEventListener("click", () => this.#check());
    parent.append(
      h("dl", { class: "ledger" }, ...Object.entries(ROWS).map(([name, text]) => h("div", {}, h("dt", {}, text), this.cells[name])),
        h("div", { class: "lost" }, h("dt", {}, "lost so far"), this.lost)),
      this.missing, this.says, this.refused);
  }

  async #check() {
    if (this.button.getAttribute("aria-disabled") === "true") return;
    const answer = await checkLedger();
    say(this.refused, answer.ok ? "" : refusal(answer));
  }

  update(ledger, alive) {
    for (const name of Object.keys(ROWS)) say(this.cells[name], count(ledger[name]));
    say(this.lost, ledger.lost == null ? "not checked" : count(ledger.lost));
    mark(this.lost, "class", `number ${levelOf(ledger)}`);
    say(this.missing, [ledger.checked_at != null && `Checked at ${clock(ledger.checked_at)} on ${ledger.checked_on}.`, ...copies(ledger.missing)].filter(Boolean).join(" "));
    say(this.says, ledger.says);
    say(this.button, ledger.checking ? "Checking" : "Check now");
    mark(this.button, "aria-disabled", String(!alive || ledger.checking));
  }
}

const copies = (missing) => Object.entries(missing).map(([node, rows]) => `${node} lacked ${count(rows)} acknowledged rows at that time; they are lost if it is promoted.`);
