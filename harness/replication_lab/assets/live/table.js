// The newest samples as a table, for readers who cannot see the charts. It is filled only while it is open.

import { h } from "./dom.js";
import { clock, count, milliseconds, number, seconds } from "./figures.js";

const ROWS = 60;
const COLUMNS = {
  time: (sample) => clock(sample.at),
  "commits/s": (sample) => number(sample.commits_per_s),
  "ceiling/s": (sample) => number(sample.law_per_s),
  p50: (sample) => milliseconds(sample.latency?.p50_ms),
  p95: (sample) => milliseconds(sample.latency?.p95_ms),
  p99: (sample) => milliseconds(sample.latency?.p99_ms),
  n: (sample) => count(sample.latency?.n),
  "errors/s": (sample) => number(sample.errors_per_s),
  lag: (sample) => Object.entries(sample.lag_s).map(([name, lag]) => `${name} ${seconds(lag)}`).join(", "),
  states: (sample) => sample.bands.map(({ track, state }) => `${track}: ${state}`).join(", "),
};

export class Table {
  constructor(details, history) {
    this.details = details;
    this.history = history;
    details.addEventListener("toggle", () => this.draw());
  }

  draw() {
    if (!this.details.open) return;
    const rows = this.history.samples.slice(-ROWS).reverse();
    this.details.querySelector("div").replaceChildren(h("table", {},
      h("thead", {}, h("tr", {}, ...Object.keys(COLUMNS).map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, ...rows.map((sample) => h("tr", {}, ...Object.values(COLUMNS).map((cell) => h("td", { class: "number" }, cell(sample)))))))); 
  }
}
