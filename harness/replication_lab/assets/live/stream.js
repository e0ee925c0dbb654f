// The server's events. The page connects again by itself; after `gone` it must not. EventSource cannot send the header of the
// session, so the stream is read by fetch.

import { HEADERS } from "./session.js";

const SILENT_MS = 3500;
const AGAIN_MS = 300;

/** Call `on.hello`, `on.state` and `on.gone` with the data, `on.connection` with "live", "silent", "lost", "refused". */
export async function listen(on) {
  let last = 0;
  let now = "lost";
  const tell = (connection) => on.connection(now = connection);
  setInterval(() => {
    if (now === "live" && performance.now() - last > SILENT_MS) tell("silent");
  }, 1000);
  for (;;) {
    const answer = await fetch("/events", { headers: HEADERS }).catch(() => null);
    if (answer && !answer.ok) return tell("refused");
    for await (const [name, data] of answer ? events(answer.body.getReader()) : []) {
      last = performance.now();
      now = name === "gone" ? "gone" : now;
      guarded(() => on[name](data));
      if (name === "gone") return;
      tell("live");
    }
    tell("lost");
    await new Promise((done) => setTimeout(done, AGAIN_MS));
  }
}

/** Do not end the stream if one part of the page fails; report the error on the console. */
function guarded(act) {
  try {
    act();
  } catch (error) {
    reportError(error);
  }
}

/** Yield [name, data] of each whole event until the stream ends or breaks. */
async function* events(reader) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read().catch(() => ({ done: true }));
    if (done) return;
    const whole = (text + decoder.decode(value, { stream: true })).split("\n\n");
    text = whole.pop();
    yield* whole.map(parsed);
  }
}

function parsed(event) {
  const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(event);
  return [name, JSON.parse(data)];
}
