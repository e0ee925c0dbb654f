// The page: the server's events go to each part; each part sends its own commands.

import { allow, allowed, by, mark, Parts, say } from "./dom.js";
import { choose } from "./colours.js";
import { begin } from "./session.js";
import { listen } from "./stream.js";
import { record, refusal, saveDrill } from "./ask.js";
import { History } from "./history.js";
import { Preview } from "./law.js";
import { Picture } from "./picture.js";
import { LinkControls, together } from "./links.js";
import { NodeControls } from "./nodes.js";
import { Charts } from "./charts.js";
import { LedgerPanel, Tiles } from "./ledger.js";
import { Log } from "./log.js";
import { Table } from "./table.js";

const CONNECTION = {
  live: ["good", "✓ live"],
  silent: ["doubt", "! no data for some seconds"],
  lost: ["doubt", "! reconnecting"],
  refused: ["bad", "✕ not connected"],
  gone: ["bad", "✕ ended"],
};
const ENDED = "This tab has no session. Open the address that lab live printed last.";

let alive = true;
let state = null;
let toxics = [];
const history = new History();
const preview = new Preview();
const charts = new Charts(by("charts"), history, preview);
const picture = new Picture(by("picture"));
const tiles = new Tiles(by("figures"));
const ledger = new LedgerPanel(by("ledger"));
const log = new Log(by("log"));
const table = new Table(by("table"), history);
const makeLink = (link) => new LinkControls({ name: link.name, title: titleOf(link) }, toxics, moved);
const links = new Parts(by("links"), makeLink);
const nodes = new Parts(by("nodes"), (node) => new NodeControls(node));

const titleOf = (link) => (link.names ? `all ${link.names.length} links` : link.name);

function moved(names, ms) {
  preview.move(names, ms);
  charts.preview();
}

function connection(now) {
  if (!alive) return;
  const [level, text] = CONNECTION[now];
  mark(by("connection"), "class", `chip ${level}`);
  say(by("connection"), text);
  if (now === "refused") end(ENDED, "refused");
}

function hello(given) {
  toxics = given.toxics;
  preview.waitsOn = given.waits_on;
  document.title = `${given.lab}: lab live`;
  say(by("lab"), given.lab);
  say(by("about"), `${given.about} (${given.topology}, ${given.engine})`);
  history.begin(given.samples);
  charts.draw();
}

function show(now) {
  state = now;
  history.add(now);
  preview.update(now);
  picture.update(now);
  tiles.update(now);
  links.update([...together(now.links), ...now.links], alive);
  nodes.update(now.nodes, alive);
  ledger.update(now.ledger, alive);
  charts.draw();
  table.draw();
  log.update(now);
  explain(now.explain.join(" "));
  mark(by("record"), "aria-pressed", String(Boolean(now.recording)));
  say(by("record"), now.recording ? "Stop recording" : "Record");
  allow(by("record"), alive);
  allow(by("drill"), alive && now.clicks > 0);
}

/** Show what happens now; announce it only when more than a figure has changed. */
function explain(text) {
  const shape = text.replace(/[\d.,]+/g, "");
  if (shape !== explain.shape) say(by("announce"), text);
  explain.shape = shape;
  say(by("explain"), text);
}

/** Say that the view has ended; the newest figures stay. */
function end(why, how) {
  if (how === "gone") connection("gone");
  alive = false;
  by("gone").hidden = false;
  say(by("gone"), `${why} The figures below are the last ones.`);
  if (state) show(state);
}

function gone({ why }) {
  end(`The page has ended: ${why}.`, "gone");
}

// --- the buttons on top ---------------------------------------------------------------------------------------------

by("record").addEventListener("click", async () => {
  if (!allowed(by("record"))) return;
  const answer = await record(!state?.recording);
  say(by("message"), answer.ok ? [answer.accepted, answer.file].filter(Boolean).join(": ") : refusal(answer));
});

by("drill").addEventListener("click", () => {
  if (!allowed(by("drill"))) return;
  say(by("save-refused"), "");
  by("save").showModal();
  by("save-name").select();
});

by("save-not").addEventListener("click", () => by("save").close());

by("save").querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const answer = await saveDrill(by("save-name").value);
  say(by("save-refused"), answer.ok ? "" : refusal(answer));
  if (!answer.ok) return;
  by("save").close();
  say(by("message"), `Saved as ${answer.file}. To repeat it: lab drill ${answer.file}`);
});

/** Keep a choice of the reader in this browser, and apply it. */
function kept(id, apply) {
  const select = by(id);
  select.value = localStorage.getItem(`lab-live-${id}`) ?? select.value;
  select.addEventListener("change", () => {
    localStorage.setItem(`lab-live-${id}`, select.value);
    apply(select.value);
  });
  apply(select.value);
}

kept("theme", choose);
kept("window", (value) => {
  history.window = Number(value);
  charts.draw();
});

begin().then(() => listen({ hello, state: show, gone, connection }));
