// Commands to the server. Nothing is shown as done because it was asked for: the stream says what happened.

import { HEADERS } from "./session.js";

const JSON_TYPE = { "Content-Type": "application/json" };
const SILENT = { error: "lab live did not answer. The next state shows whether the command was carried out.", expected: "a running lab live" };

/** Send a command; return {ok: true, accepted, file} or {ok: false, status, error, expected, next}. */
export async function ask(method, path, body = {}) {
  try {
    const answer = await fetch(path, { method, headers: { ...HEADERS, ...JSON_TYPE }, body: JSON.stringify(body) });
    const text = await answer.text();
    return { status: answer.status, ...read(text), ok: answer.ok };
  } catch {
    return { ok: false, status: 0, ...SILENT };
  }
}

function read(text) {
  try {
    return JSON.parse(text);
  } catch {
    return { error: text.trim() || "lab live refused this and gave no reason." };
  }
}

const path = (...names) => `/${names.map(encodeURIComponent).join("/")}`;

/** Change a link; once more if no answer came, since the same condition twice is the same. */
export async function changeLink(name, condition) {
  const change = () => ask("PATCH", path("links", name), { condition });
  const answer = await change();
  return answer.status === 0 ? change() : answer;
}

export const actOnNode = (name, action, body) => ask("POST", path("nodes", name, action), body);
export const checkLedger = () => ask("POST", "/ledger/check");
export const record = (on) => ask("POST", "/record", { on });
export const saveDrill = (name) => ask("POST", "/drill", { name });

/** Return a refusal as one text: what happened, what was expected, what to do next. */
export function refusal({ error, expected, next }) {
  return [error, expected && `Expected: ${expected}.`, next && `Next: ${next}`].filter(Boolean).join(" ");
}

/** Sends one value at a time. Of the values that arrive during a request, only the newest is sent. */
export class Newest {
  #waiting = null;
  #busy = false;

  constructor(send, done) {
    this.send = send;
    this.done = done;
  }

  async put(value) {
    this.#waiting = { value };
    if (this.#busy) return;
    this.#busy = true;
    while (this.#waiting) {
      const next = this.#waiting.value;
      this.#waiting = null;
      const answer = await this.send(next);
      if (!this.#waiting) this.done(answer, next);
    }
    this.#busy = false;
  }
}
