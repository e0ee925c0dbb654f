// The samples and faults so far, as columns for the charts.

const KEPT_S = 660;
// A gap longer than this is a gap in the line: the stream was broken.
const GAP_S = 3;

// Conditions of several links that begin and end within this time are one band.
const TOGETHER_S = 1;

const near = (one, other) => one === other || (one != null && other != null && Math.abs(one - other) <= TOGETHER_S);

/** Return the spans with those in one that give several links the same condition at the same time. */
function together(spans) {
  const found = [];
  for (const span of spans) {
    const condition = span.kind === "link" ? span.label.replace(`${span.target} `, "") : null;
    const same = condition && found.find((other) => other.condition === condition && near(other.begin, span.begin) && near(other.end, span.end));
    if (!same) found.push({ ...span, condition, links: 1 });
    else {
      same.links += 1;
      same.label = `${same.links} links ${condition}`;
      if (span.seen === false) same.seen = false;
    }
  }
  return found;
}

export class History {
  samples = [];
  spans = [];
  window = 120;

  begin(samples) {
    this.samples = [...samples];
  }

  add({ sample, spans, at }) {
    this.spans = spans;
    this.at = at;
    const last = this.samples.at(-1);
    if (last && sample.at < last.at) this.samples = [];
    if (!last || sample.at !== last.at) this.samples.push(sample);
    while (this.samples.length && this.samples[0].at < sample.at - KEPT_S) this.samples.shift();
  }

  get now() {
    return this.samples.at(-1)?.at ?? 0;
  }

  /** Return the shown range of time: it fills from the left, then moves on with a little room at the right. */
  get range() {
    const from = Math.max(0, this.now - this.window);
    return [from, from + this.window * 1.02];
  }

  /** Return the faults that are in the shown range; not the steps of a slider that went on within a second. */
  get faults() {
    const [from] = this.range;
    const step = (span) => span.kind === "link" && span.end - span.begin < TOGETHER_S;
    return together(this.spans.filter((span) => span.end == null || (span.end > from && !step(span))));
  }

  get shown() {
    const from = this.now - this.window - 2;
    return this.samples.filter((sample) => sample.at >= from);
  }

  /** Return the times, and for each reading a column of values; null where there is none. */
  columns(readings) {
    const rows = [];
    let before = null;
    for (const sample of this.shown) {
      if (before !== null && sample.at - before > GAP_S) rows.push([before + 1, ...readings.map(() => null)]);
      rows.push([sample.at, ...readings.map((read) => read(sample) ?? null)]);
      before = sample.at;
    }
    return [0, ...readings.map((_, at) => at + 1)].map((column) => rows.map((row) => row[column]));
  }
}
