// The law while the slider moves: what clients / round trip says of the round trip that is asked for.

// How close the measured law must come before the preview goes, and how long it stays at most.
const CLOSE = 0.05;
const PATIENCE_MS = 10_000;

export class Preview {
  #trips = 1;

  /** Keep how many round trips of the busiest link a commit waits, as the measured law shows it. */
  learn({ load, sample, links }) {
    const bound = load.rate > 0 && sample.law_per_s >= load.rate * 0.999;
    const trip = sample.law_per_s && this.#trip(links);
    if (trip && !bound) this.#trips = (load.clients * 1000) / sample.law_per_s / trip;
    this.load = load;
    this.waits = sample.law_per_s != null;
    if (this.shown && this.#over(sample.law_per_s)) this.shown = null;
  }

  #trip(links) {
    const measured = links.map((link) => link.measured_ms).filter(Boolean);
    return measured.length ? Math.max(...measured) : null;
  }

  #over(law) {
    const near = law != null && Math.abs(law - this.shown.per_s) <= CLOSE * this.shown.per_s;
    return near || performance.now() > this.shown.until;
  }

  /** Show the law for a round trip that the slider asks for; nothing if commits wait for no link. */
  move(ms) {
    if (!this.load?.clients || !this.waits) return;
    const limit = this.load.rate || Infinity;
    const per_s = Math.min(limit, ms > 0 ? (this.load.clients * 1000) / (ms * this.#trips) : Infinity);
    this.shown = Number.isFinite(per_s) ? { per_s, ms, until: performance.now() + PATIENCE_MS } : null;
  }
}
