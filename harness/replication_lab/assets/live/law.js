// The law while the slider moves: what clients / round trip says of the round trip that is asked for. The rule of which
// link a commit waits for is that of model/live_rules.py; the law of a state, with the measured round trip, is the server's.

// How close the measured law must come before the preview goes, and how long it stays at most.
const CLOSE = 0.05;
const PATIENCE_MS = 10_000;
const RING = "-ring";

// Of the round trips to the other nodes, the shortest first, the one that a commit waits for.
const WAITS = {
  semisync: (trips) => trips[0],
  group: (trips, nodes) => trips[Math.floor(nodes / 2) - 1],
  galera: (trips) => trips.at(-1),
  drbd: (trips) => trips.at(-1),
};

/** Return the round trip in ms that a commit would wait for if the links of `names` had the one of `ms`. */
export function waitsFor(replication, { nodes, links, load }, names, ms) {
  const known = new Set(nodes.map((node) => node.name));
  const counts = ({ name, source, target }) =>
    known.has(source) && known.has(target) && !name.endsWith(RING) && (replication === "drbd" || source === load.node);
  const trips = links.filter(counts).map((link) => (names.includes(link.name) ? ms : link.measured_ms));
  return WAITS[replication]?.(trips.filter((trip) => trip != null).sort((one, other) => one - other), nodes.length);
}

export class Preview {
  replication = "";

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
    const trip = sample.law_per_s == null ? undefined : waitsFor(this.replication, this.state, names, ms);
    if (trip === undefined || !load.clients) return;
    const per_s = Math.min(load.rate || Infinity, (load.clients * 1000) / trip);
    this.shown = Number.isFinite(per_s) ? { per_s, ms, until: performance.now() + PATIENCE_MS } : null;
  }
}
