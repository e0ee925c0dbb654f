// The charts: one time axis for all, a legend whose buttons hide a series and show its newest figure.

import { h, mark, say } from "./dom.js";
import { colour, dash, onChange } from "./colours.js";
import { clock, count, milliseconds, number, rate, seconds } from "./figures.js";
import { faults, ROW, rowsOf, runs, tracks } from "./bands.js";

const AXIS = 62; // all charts have their axes at the same place
const FONT = "13px system-ui, sans-serif";
const TRACK = 26;

export class Charts {
  #charts = [];

  constructor(parent, history, preview) {
    this.history = history;
    const of = (options) => this.#add(parent, options);
    const commits = of({
      title: "Commits per second", height: 280, labels: true, figure: rate, id: "commits",
      plugins: [law(preview)], floor: () => preview.shown?.per_s ?? 0,
      series: [
        { label: "measured", read: (sample) => sample.commits_per_s, line: 1, width: 2.5 },
        { label: "ceiling", read: (sample) => sample.law_per_s, line: 2, width: 2 },
      ],
    });
    of({
      title: "Latency, ms", height: 170, figure: milliseconds, log: true, id: "latency",
      note: (sample) => `n = ${count(sample.latency?.n ?? 0)}`,
      series: ["p50", "p95", "p99"].map((name, at) => ({ label: name, read: (sample) => sample.latency?.[`${name}_ms`], line: [1, 3, 2][at] })),
    });
    this.states = of({ title: "State of the nodes", height: TRACK, figure: String, id: "states", tracks: true, series: [] });
    this.lag = of({ title: "Replication lag, s", height: 130, figure: seconds, id: "lag", floor: () => 1, series: [] });
    of({ title: "Errors per second", height: 100, figure: rate, id: "errors", floor: () => 1,
      series: [{ label: "errors", read: (sample) => sample.errors_per_s, line: 2, fill: true, solid: true }] });
    this.commits = commits;
    // What is drawn, for tests: the points, the newest one, and the law that the slider asks for.
    commits.element.plotted = () => commits.plot.data;
    commits.element.newest = () => {
      const [times, measured, laws] = commits.plot.data;
      return { at: times.at(-1), measured: measured.at(-1), law: laws.at(-1), points: times.length, preview: preview.shown?.per_s ?? null };
    };
    onChange(() => this.draw());
    document.addEventListener("visibilitychange", () => this.draw());
  }

  #add(parent, options) {
    const chart = new Chart(options, this.history);
    this.#charts.push(chart);
    parent.append(chart.element);
    return chart;
  }

  /** Draw all charts again, unless the page is hidden. */
  draw() {
    const { history } = this;
    if (document.hidden || !history.samples.length) return;
    const replicas = [...new Set(history.shown.flatMap((sample) => Object.keys(sample.lag_s)))];
    this.lag.element.hidden = replicas.length === 0;
    this.lag.show(replicas.map((name, at) => ({ label: name, read: (sample) => sample.lag_s[name], line: (at % 6) + 1 })));
    const states = runs(history.shown);
    this.states.element.hidden = states.size === 0;
    this.states.height = states.size * TRACK + 34;
    for (const chart of this.#charts) chart.draw();
  }

  /** Draw only the chart with the law, while the slider moves. */
  preview() {
    this.commits.draw();
  }
}

/** Return a plugin of uPlot that draws the law for the round trip that is asked for, across the whole chart. */
function law(preview) {
  return { hooks: { draw: ({ ctx, bbox, valToPos }) => {
    if (!preview.shown) return;
    const scale = devicePixelRatio;
    const y = valToPos(preview.shown.per_s, "y", true);
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("series-2");
    ctx.lineWidth = 2 * scale;
    ctx.setLineDash(dash(2).map((part) => part * scale));
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.font = `600 ${13 * scale}px system-ui, sans-serif`;
    ctx.textAlign = "right";
    const text = `ceiling at ${milliseconds(preview.shown.ms)}: ${rate(preview.shown.per_s)}`;
    const above = y - bbox.top > 24 * scale;
    ctx.fillText(text, bbox.left + bbox.width - 6 * scale, y + (above ? -8 : 16) * scale);
    ctx.restore();
  } } };
}

class Chart {
  #series = [];
  #hidden = new Set();

  constructor(options, history) {
    this.options = options;
    this.history = history;
    this.height = options.height;
    this.legend = h("div", { class: "legend" });
    this.note = h("span", { class: "small", title: "commits in the last second" });
    this.place = h("div", { class: "plot", "aria-hidden": "true" });
    const title = h("h3", { id: `${options.id}-title` }, options.title);
    this.element = h("div", { class: "chart", id: options.id, role: "group", "aria-labelledby": title.id },
      h("div", { class: "heading" }, title, this.legend, this.note), this.place);
    this.show(options.series);
    new ResizeObserver(() => this.#resize()).observe(this.place);
  }

  /** Show these series; the plot is made anew only when their names differ. */
  show(series) {
    const names = (list) => list.map(({ label }) => label).join("\n");
    const same = this.plot && names(series) === names(this.#series);
    this.#series = series;
    if (same) return;
    this.plot?.destroy();
    this.plot = null;
    this.buttons = series.map((each, at) => this.#button(each, at));
    this.legend.replaceChildren(...this.buttons.map(({ element }) => element));
  }

  #button({ label, line, solid }, at) {
    const figure = h("b");
    const press = () => {
      const hide = !this.#hidden.delete(label) && this.#hidden.add(label);
      mark(element, "aria-pressed", String(!hide));
      this.plot?.setSeries(at + 1, { show: !hide });
    };
    const element = h("button", { type: "button", class: `key line-${line} ${solid ? "solid" : ""}`, "aria-pressed": "true", onclick: press,
      title: `show or hide ${label}` }, h("span", { class: "stroke", "aria-hidden": "true" }), `${label} `, figure);
    return { element, figure };
  }

  draw() {
    if (this.element.hidden || !this.place.clientWidth) return;
    const { history, options } = this;
    this.plot ??= this.#make();
    if (this.plot.height !== this.height) this.#resize();
    this.#makeRoom();
    this.plot.setData(history.columns(this.#series.length ? this.#series.map(({ read }) => read) : [() => null]));
    const sample = history.samples.at(-1);
    this.#series.forEach(({ read }, at) => say(this.buttons[at].figure, options.figure(read(sample) ?? null)));
    if (options.note) say(this.note, options.note(sample));
  }

  #resize() {
    this.plot?.setSize({ width: this.place.clientWidth, height: this.height });
  }

  /** Let the plot measure itself anew when the names of faults need another number of rows. */
  #makeRoom() {
    const above = this.#above();
    if (above !== this.above) this.plot.redraw(false, true);
    this.above = above;
  }

  /** Return the room above the chart for the names of the faults. */
  #above() {
    if (!this.options.labels) return 8;
    const rows = rowsOf(this.history, this.place.clientWidth - AXIS - 16).map(({ row }) => row + 1);
    return Math.max(8, Math.max(0, ...rows) * ROW + 4);
  }

  #make() {
    const { history, options } = this;
    const series = this.#series.map((each) => ({
      label: each.label, stroke: () => colour(`series-${each.line}`), width: each.width ?? 1.75, dash: each.solid ? [] : dash(each.line),
      points: { show: false }, show: !this.#hidden.has(each.label), ...(each.fill && { fill: () => colour("fault-band") }),
    }));
    return new globalThis.uPlot({
      width: this.place.clientWidth, height: this.height, padding: [() => this.#above(), 16, 0, 0],
      legend: { show: false }, cursor: { sync: { key: "lab" }, drag: { x: false, y: false }, y: false },
      scales: { x: { time: false, range: () => history.range }, y: scaleOf(options) },
      axes: [axis({ size: 26, values: (_, ticks) => ticks.map(clock), incrs: [5, 10, 15, 30, 60, 120] }),
        axis({ size: AXIS, ...figuresOf(options) })],
      series: [{}, ...(series.length ? series : [{ show: false }])],
      plugins: [faults(history, options.labels), ...(options.tracks ? [tracks(history)] : []), ...(options.plugins ?? [])],
    }, [[]], this.place);
  }
}

/** Return the marks of the axis of values: whole decades on a log scale, none beside tracks. */
function figuresOf({ log, tracks: none }) {
  if (none) return { splits: () => [], values: () => [] };
  const values = (_, ticks) => ticks.map((tick) => (tick == null ? "" : number(tick)));
  return log ? { values, splits: (_plot, _axis, low, high) => powers(low, high) } : { values };
}

function powers(low, high) {
  const first = Math.round(Math.log10(low));
  return Array.from({ length: Math.round(Math.log10(high)) - first + 1 }, (_, at) => 10 ** (first + at));
}

function scaleOf({ log, floor }) {
  if (log) return { distr: 3, range: (_, low, high) => decades(low, high) };
  return { range: (_, low, high) => [0, Math.max(high ?? 0, floor?.() ?? 0, 0.001) * 1.12] };
}

/** Return the whole decades around the values. */
function decades(low, high) {
  if (!(low > 0)) return [0.1, 100];
  return [10 ** Math.floor(Math.log10(low)), 10 ** Math.ceil(Math.log10(high) + 0.02)];
}

function axis(options) {
  const grid = { stroke: () => colour("line"), width: 1 };
  return { stroke: () => colour("muted"), font: FONT, grid, ticks: { ...grid, size: 4 }, gap: 4, ...options };
}
