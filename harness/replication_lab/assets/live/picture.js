// The topology as a picture: nodes, links and what is on them. Each part leads to its controls.

import { by, mark, say, svg } from "./dom.js";
import { milliseconds, rate, symbol } from "./figures.js";
import { SILENT, words } from "./condition.js";
import { layout, NODE } from "./layout.js";

const BEND = 15; // how far two links of one pair are apart
const CLIENTS = { x: 6, y: 4, width: 138, height: 28 };
// Where a link's label is, from its source to its target: nearer to the target in a tree, to the source in a ring.
const LABEL = { tree: 0.55, ring: 0.33 };

export class Picture {
  #shape = "";
  #nodes = new Map();
  #links = new Map();

  constructor(parent) {
    this.parent = parent;
  }

  update(state) {
    const shape = JSON.stringify([state.nodes.map((node) => node.name), state.links.map((link) => [link.name, link.source, link.target])]);
    if (shape !== this.#shape) {
      this.#shape = shape;
      this.#draw(state);
    }
    for (const node of state.nodes) this.#nodes.get(node.name)(node);
    for (const link of state.links) this.#links.get(link.name)(link, state.sample);
    this.#clients(state);
  }

  #draw(state) {
    const { width, height, places, ring } = layout(state.nodes, state.links);
    this.label = state.links.length === 1 ? 0.5 : ring ? LABEL.ring : LABEL.tree;
    this.places = places;
    this.client = svg("path", { class: "client-line", "marker-end": "url(#arrow)" });
    this.clientText = svg("text", { x: CLIENTS.x + CLIENTS.width / 2, y: CLIENTS.y + 19, class: "client-text" });
    const links = state.links.map((link) => this.#link(link, state.links));
    const known = new Set(state.nodes.map((node) => node.name));
    const others = [...places.keys()].filter((name) => !known.has(name)).map((name) => this.#other(name));
    const nodes = state.nodes.map((node) => this.#node(node));
    this.parent.replaceChildren(
      svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "The nodes and links of the lab" },
        svg("defs", {}, arrow()),
        this.client,
        svg("rect", { ...CLIENTS, rx: 14, class: "client-box" }), this.clientText,
        ...links, ...others, ...nodes),
    );
  }

  #node({ name, role }) {
    const place = this.places.get(name);
    const box = svg("rect", { x: -NODE.width / 2, y: -NODE.height / 2, width: NODE.width, height: NODE.height, rx: 8, class: "box" });
    const sign = svg("text", { x: NODE.width / 2 - 14, y: -10, class: "sign" });
    const title = svg("text", { x: -NODE.width / 2 + 10, y: -10, class: "name" }, name);
    const roleText = svg("text", { x: -NODE.width / 2 + 10, y: 6, class: "role" }, role);
    const stateText = svg("text", { x: -NODE.width / 2 + 10, y: 22, class: "state" });
    const group = svg("a", { href: `#node-${name}`, class: "node", transform: `translate(${place.x} ${place.y})` },
      box, title, roleText, stateText, sign);
    group.addEventListener("click", toControls(`node-${name}`));
    this.#nodes.set(name, (node) => {
      mark(group, "class", `node ${node.level} ${node.at}`);
      mark(group, "aria-label", `${node.name}, ${node.role}: ${stateOf(node)}`);
      say(roleText, node.role);
      say(stateText, short(stateOf(node)));
      say(sign, symbol(node.level));
    });
    return group;
  }

  #other(name) {
    const { x, y } = this.places.get(name);
    return svg("g", { class: "node other", transform: `translate(${x} ${y})` },
      svg("rect", { x: -NODE.width / 2, y: -20, width: NODE.width, height: 40, rx: 20, class: "box" }),
      svg("text", { x: 0, y: 5, class: "name middle" }, name));
  }

  #link(link, links) {
    const ends = [this.places.get(link.source), this.places.get(link.target)];
    const second = links.some((other) => other !== link && other.source === link.source && other.target === link.target && links.indexOf(other) < links.indexOf(link));
    const { path, at } = curve(...ends, bend(link, links), second ? 1 - this.label : this.label);
    const line = svg("path", { d: path, class: "line", "marker-end": "url(#arrow)" });
    const box = svg("rect", { class: "label-box", height: 34, rx: 6 });
    const trip = svg("text", { class: "trip", y: -2 });
    const asked = svg("text", { class: "asked", y: 11 });
    const group = svg("a", { href: `#link-${link.name}`, class: "link" }, line,
      svg("g", { transform: `translate(${at.x} ${at.y})` }, box, trip, asked));
    group.addEventListener("click", toControls(`link-${link.name}`));
    this.#links.set(link.name, (now, sample) => {
      const broken = now.asked in SILENT;
      mark(group, "class", `link ${broken ? `broken ${now.asked}` : ""} ${now.seen === false ? "unseen-act" : ""}`);
      const measured = now.measured_ms == null ? "no answer" : milliseconds(now.measured_ms);
      say(trip, broken ? `✕ ${words(now.asked)}` : measured);
      say(asked, broken ? measured : words(now.asked));
      mark(group, "aria-label", `link ${now.name}: requested ${words(now.asked)}, measured ${measured}`);
      const wide = Math.max(trip.textContent.length * 7.4, asked.textContent.length * 6.2) + 14;
      mark(box, "x", `${-wide / 2}`);
      mark(box, "y", "-17");
      mark(box, "width", `${wide}`);
    });
    return group;
  }

  #clients({ load, sample }) {
    const place = this.places.get(load.node);
    say(this.clientText, load.clients ? `${load.clients} client${load.clients > 1 ? "s" : ""}, ${rate(sample.commits_per_s)}` : "no clients");
    mark(this.client, "d", place && load.clients ? way(place) : "");
  }
}

const stateOf = (node) => (node.at === "running" ? node.state : node.at);

const short = (text) => (text.length > 14 ? `${text.slice(0, 13)}…` : text);

function arrow() {
  return svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 5, markerHeight: 5, orient: "auto-start-reverse" },
    svg("path", { d: "M0 0L8 4L0 8z", class: "arrow" }));
}

/** Return how far a link bends aside, so that links of one pair do not cover each other. */
function bend(link, links) {
  const same = links.filter((other) => [other.source, other.target].sort().join() === [link.source, link.target].sort().join());
  if (same.length === 1) return 0;
  const back = same[0].source !== link.source;
  const side = (same.indexOf(link) - (same.length - 1) / 2) * 2 * BEND;
  return back ? -side : side;
}

/** Return the path of a link from border to border of its nodes, and where its label is, `part` of the way. */
function curve(from, to, aside, part) {
  const length = Math.hypot(to.x - from.x, to.y - from.y);
  const shift = { x: (-(to.y - from.y) / length) * aside, y: ((to.x - from.x) / length) * aside };
  const moved = (place) => ({ x: place.x + shift.x, y: place.y + shift.y });
  const begin = border(from, moved(from), moved(to));
  const end = border(to, moved(to), moved(from));
  const at = { x: begin.x + (end.x - begin.x) * part, y: begin.y + (end.y - begin.y) * part };
  return { path: `M${begin.x} ${begin.y}L${end.x} ${end.y}`, at };
}

/** Return where the line from a place inside a node's box to another place leaves the box. */
function border(node, from, to) {
  const dx = to.x - from.x;
  const dy = to.y - from.y;
  const leaves = (middle, half, start, by) => (by ? (middle + Math.sign(by) * half - start) / by : Infinity);
  const part = Math.min(leaves(node.x, NODE.width / 2 + 3, from.x, dx), leaves(node.y, NODE.height / 2 + 3, from.y, dy));
  return { x: from.x + dx * part, y: from.y + dy * part };
}

/** Return the clients' arrow: from above to nodes on top, along the left edge to the others. */
function way({ x, y, row }) {
  const { width, height } = CLIENTS;
  const middle = CLIENTS.y + height / 2;
  if (row === 0 && x > CLIENTS.x + width) return `M${CLIENTS.x + width} ${middle}H${x}V${y - NODE.height / 2 - 3}`;
  if (row === 0) return `M${x} ${CLIENTS.y + height}V${y - NODE.height / 2 - 3}`;
  return `M14 ${CLIENTS.y + height}V${y}H${x - NODE.width / 2 - 3}`;
}

function toControls(id) {
  return (event) => {
    event.preventDefault();
    const card = by(id);
    card.scrollIntoView({ block: "nearest", behavior: "smooth" });
    card.focus({ preventScroll: true });
  };
}
