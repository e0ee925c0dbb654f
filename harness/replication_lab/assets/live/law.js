// The law while the slider moves: what clients / round trip says of the round trip that is asked for. The law of a state,
// with the measured round trip, is the server's.

// How close the measured law must come before the preview goes, and how long it stays at most.
const CLOSE = 0.05;
const PATIENCE_MS = 10_000;

// A commit waits for one of the links that carry it: which one, of their round trips in order, the shortest first. The
// same as WAITS of live/sampler.py.
const WAITS = {
  nearest: (trips) => trips[0],
  majority: (trips, nodes) => trips[Math.floor(nodes / 2) - 1],
  farthest: (trips) => trips.at(-1),
};

/** Return the round trip in ms that a commit would wait for if the links of `names` had the one of `ms`. */
export function waitsFor(waitsOn, { nodes, links }, names, ms) {
  const carrying = links.filter((link) => link.carries);
  const trips = carrying.map((link) => (names.includes(link.name) ? ms : link.measured_ms));
  return WAITS[waitsOn]?.(trips.filter((trip) => trip != null).sort((one, other) => one - other), nodes.length);
}

export class Preview {
  waitsOn = "";

  update(state) {
    this.state = state;
    if (this.shown && this.#over(state.sample.law_per_s)) this.shown = null;
  }

  #over(law) {
    const near = law != null && Math.abs(law - this.shown.per_s) <= CLOSE * this.shown.per_s;
    return near || performance.now() > this.shown.until;
  }

  /** Show the law for a round trip that the slider of these links asks for; nothing if commits wait for no link. */
  move(names, ms) {
    const { load, sample } = this.state;
    const trip = sample.law_per_s == null ? undefined : waitsFor(this.waitsOn, this.state, names, ms);
    if (trip === undefined || !load.clients) return;
    const per_s = Math.min(load.rate || Infinity, (load.clients * 1000) / trip);
    this.shown = Number.isFinite(per_s) ? { per_s, ms, until: performance.now() + PATIENCE_MS } : null;
  }
}
