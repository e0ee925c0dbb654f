// What happened, newest first, and announced: faults, proofs, changes of state, checks. Made from the states alone.

import { h } from "./dom.js";
import { clock, count, seconds } from "./figures.js";
import { words } from "./condition.js";

const KEPT = 200;

export class Log {
  #before = null;
  #notes = [];

  constructor(list) {
    this.list = list;
  }

  update(state) {
    const found = this.#before ? changes(this.#before, state) : [...state.spans.filter((span) => span.end == null).map((span) => `${span.label} (since ${clock(span.begin)})`)];
    const news = state.notes.filter((note) => !this.#notes.includes(note));
    this.#before = state;
    this.#notes = state.notes;
    for (const text of [...found, ...news]) this.add(state.at, text);
  }

  add(at, text) {
    this.list.prepend(h("li", {}, h("time", { class: "mono small" }, clock(at)), " ", text));
    while (this.list.children.length > KEPT) this.list.lastChild.remove();
  }
}

/** Return a sentence for each difference of two states that a reader should hear of. */
export function changes(before, after) {
  return [
    ...faults(before.spans, after.spans),
    ...pairs(before.links, after.links).flatMap(link),
    ...pairs(before.nodes, after.nodes).flatMap(node),
    ...ledger(before.ledger, after.ledger),
    ...(before.recording !== after.recording ? [after.recording ? `Recording to ${after.recording}` : `Recorded in ${before.recording}`] : []),
  ];
}

const pairs = (before, after) => after.map((now) => [before.find(({ name }) => name === now.name), now]).filter(([was]) => was);

function faults(before, after) {
  const known = new Map(before.map((span) => [span.id, span]));
  return after.flatMap((span) => {
    const was = known.get(span.id);
    if (!was) return [`${span.label} begins`];
    return was.end == null && span.end != null ? [`${span.label} ended after ${seconds(span.end - span.begin)}`] : [];
  });
}

function link([was, now]) {
  if (now.seen === was.seen && now.asked === was.asked) return [];
  if (now.seen == null || was.seen === now.seen) return [];
  return [`${now.name}: ${words(now.asked)} ${now.seen ? "verified" : "NO EFFECT SEEN"}${now.says ? `; ${now.says}` : ""}`];
}

function node([was, now]) {
  const found = [];
  if (was.role !== now.role) found.push(`${now.name} is now ${now.role}; it was ${was.role}`);
  if (was.at !== now.at) found.push(`${now.name}: container ${now.at}`);
  else if (was.level !== now.level) found.push(`${now.name}: ${now.state}`);
  if (!was.writes_here && now.writes_here) found.push(`Clients now write to ${now.name}`);
  if (was.seen !== false && now.seen === false) found.push(`${now.name}: ${now.asked}: NO EFFECT SEEN; ${now.says}`);
  return found;
}

function ledger(was, now) {
  if (now.checked_at == null || now.checked_at === was.checked_at) return [];
  const rows = now.lost === 1 ? "1 acknowledged row is" : `${count(now.lost)} acknowledged rows are`;
  return [`Checked on ${now.checked_on}: ${rows} missing`];
}
