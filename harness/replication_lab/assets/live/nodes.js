// The controls of the nodes: their state, and what can be done to them now. A refused action says why.

import { allow, allowed, h, mark, Parts, say } from "./dom.js";
import { actOnNode, refusal } from "./ask.js";
import { chip, count, number, seconds, symbol } from "./figures.js";

// In the order of the buttons; of two in one place only one is possible at a time.
const ACTIONS = [["kill"], ["stop"], ["pause", "resume"], ["restart", "start"], ["promote"], ["rejoin"], ["write-here"]];
const ALWAYS = new Set(["kill", "stop", "pause", "restart"]);
const LIMITS = { write_iops: "writes/s", read_iops: "reads/s", bandwidth: "bytes/s", flush_us: "flush, µs" };
// Actions that may lose writes are refused at first; what a second button says of doing them nevertheless.
const ANYWAY = { promote: "and accept that writes are lost", rejoin: "and discard the transactions that only it has" };
const CONFLICT = 409;

const titled = (action) => (action[0].toUpperCase() + action.slice(1)).replace("-", " ");

export class NodeControls {
  constructor({ name }) {
    this.name = name;
    this.chip = h("span", { class: "chip" });
    this.role = h("span", { class: "small" });
    this.facts = h("p", { class: "figures" });
    this.proof = h("p", { class: "says small" });
    this.refused = h("p", { class: "refused", role: "alert" });
    this.anyway = h("button", { type: "button", hidden: true, onclick: () => this.#act(this.anyway.dataset.action, { allow_data_loss: true }) });
    this.buttons = ACTIONS.map((names) => this.#button(names));
    this.disks = new Disks(name, (limits) => this.#act("disk-limit", { limits }));
    this.element = h("article", { class: "card control", id: `node-${name}`, tabindex: -1, "aria-label": `Node ${name}` },
      h("div", { class: "heading" }, h("h3", {}, name, " ", this.role), this.chip),
      this.facts,
      h("div", { class: "buttons", role: "group", "aria-label": `Actions on ${name}` }, ...this.buttons),
      this.disks.element, this.proof, this.refused, this.anyway);
  }

  #button(names) {
    const button = h("button", { type: "button", onclick: () => allowed(button) && this.#act(button.dataset.action) });
    button.names = names;
    return button;
  }

  async #act(action, body = {}) {
    this.refusedAction = null;
    const answer = await actOnNode(this.name, action, body);
    say(this.refused, answer.ok ? "" : refusal(answer));
    if (answer.status !== CONFLICT) return;
    this.refusedAction = action;
    this.#offer(action);
  }

  /** Offer an action again that was refused or failed, with what it would cost. */
  #offer(action) {
    this.anyway.hidden = !(action in ANYWAY);
    if (this.anyway.hidden) return;
    this.anyway.dataset.action = action;
    say(this.anyway, `${titled(action)} ${this.name} ${ANYWAY[action]}`);
  }

  update(node, alive) {
    say(this.role, node.role);
    mark(this.chip, "class", chip(node.level));
    say(this.chip, `${symbol(node.level)} ${node.at === "running" ? node.state : node.at}`);
    say(this.facts, facts(node));
    for (const button of this.buttons) {
      const action = button.names.find((name) => node.actions.includes(name)) ?? button.names[0];
      button.dataset.action = action;
      button.hidden = !ALWAYS.has(button.names[0]) && !node.actions.includes(action);
      say(button, titled(action));
      mark(button, "aria-label", `${button.textContent} ${node.name}`);
      allow(button, alive && node.actions.includes(action));
    }
    this.disks.update(node.disks, alive && node.actions.includes("disk-limit"));
    say(this.proof, proof(node));
    this.#offer(this.refusedAction ?? (node.seen === false && node.actions.includes(node.asked) ? node.asked : ""));
    mark(this.proof, "class", node.seen === false ? "says failed" : "says small");
  }
}

function facts(node) {
  const behind = node.behind == null ? "" : `${count(node.behind)} transactions behind`;
  return [
    `container ${node.at}`,
    node.writes_here && "clients write here",
    node.lag_s != null && `lag ${seconds(node.lag_s)}`,
    behind,
  ].filter(Boolean).join(", ");
}

function proof({ asked, seen, says, busy }) {
  if (!asked) return "";
  const found = seen === false ? "no effect seen" : seen ? "verified" : busy ? "checking" : "not checked yet";
  return `${asked}: ${found}${says ? `; ${says}` : ""}`;
}

/** The emulated disks of a node: their limits as they report them, their work, and a field for each limit. */
class Disks {
  constructor(node, put) {
    this.rows = h("tbody");
    this.fields = Object.entries(LIMITS).map(([limit, unit]) => {
      const field = h("input", { type: "number", min: 0, step: 1, inputmode: "numeric" });
      field.limit = limit;
      return [field, h("label", {}, `${unit} `, field)];
    });
    this.set = h("button", { type: "button", "aria-label": `Set the disk limits of ${node}`, onclick: () => this.#set(put) }, "Set");
    this.reset = h("button", { type: "button", "aria-label": `Restore the disk limits of ${node}`, onclick: () => allowed(this.reset) && put({}) }, "Restore");
    this.parts = new Parts(this.rows, ({ name }) => new Disk(name));
    this.element = h("details", { class: "disks", hidden: true }, h("summary", {}, "Disks"),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Disks of ${node}` },
        h("table", {}, h("thead", {}, h("tr", {}, ...["disk", "limits", "writes/s", "flushes/s"].map((text) => h("th", { scope: "col" }, text)))), this.rows)),
      h("p", { class: "small" }, "Limits of all disks; 0 removes a limit."),
      h("div", { class: "buttons" }, ...this.fields.map(([, label]) => label), this.set, this.reset));
  }

  // Without any value the server would restore all limits, which the other button is for.
  #set(put) {
    const given = this.#given();
    if (allowed(this.set) && Object.keys(given).length) put(given);
  }

  #given() {
    const filled = this.fields.filter(([field]) => field.value !== "" && field.checkValidity());
    return Object.fromEntries(filled.map(([field]) => [field.limit, Number(field.value)]));
  }

  update(disks, possible) {
    this.element.hidden = disks.length === 0;
    this.parts.update(disks);
    allow(this.set, possible);
    allow(this.reset, possible);
  }
}

class Disk {
  constructor(name) {
    this.cells = [0, 1, 2].map(() => h("td"));
    this.element = h("tr", {}, h("th", { scope: "row" }, name), ...this.cells);
  }

  update(disk) {
    const limits = [
      disk.write_iops != null && `${count(disk.write_iops)} writes/s`,
      disk.read_iops != null && `${count(disk.read_iops)} reads/s`,
      disk.bandwidth != null && `${count(disk.bandwidth)} bytes/s`,
      disk.flush_us > 0 && `flush ${number(disk.flush_us / 1000)} ms`,
    ].filter(Boolean).join(", ");
    say(this.cells[0], disk.failed ? "FAILED" : limits || "none");
    say(this.cells[1], number(disk.writes_per_s));
    say(this.cells[2], number(disk.flushes_per_s));
  }
}
