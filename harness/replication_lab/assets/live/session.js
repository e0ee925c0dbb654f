// The session of this tab: a secret that the page makes, and that the server accepts with the token of the address. It is kept
// for this tab and this port, and sent in a header. A browser would send a cookie to every port of this machine.

const KEY = "lab-live-session";
const TRIES = 8;
const PAUSE_MS = 400;

const secret = () => [...crypto.getRandomValues(new Uint8Array(24))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const session = sessionStorage.getItem(KEY) ?? secret();

export const HEADERS = { Authorization: `Bearer ${session}` };

const token = () => new URLSearchParams(location.hash.slice(1)).get("token");

/** Send the token of the address once, and take it out of the address. */
export async function begin() {
  if (!token()) return;
  sessionStorage.setItem(KEY, session);
  await send(token(), TRIES);
  history.replaceState(null, "", location.pathname);
}

/** Send it again if no answer came: the server accepts the same session repeatedly. */
async function send(once, tries) {
  try {
    await fetch("/session", { method: "POST", headers: { ...HEADERS, "X-Lab-Token": once } });
  } catch {
    if (tries <= 1) return;
    await new Promise((done) => setTimeout(done, PAUSE_MS));
    await send(once, tries - 1);
  }
}

// A new address of lab live, typed into this tab, differs only in its token, so the browser would not load the page.
addEventListener("hashchange", () => token() && location.reload());
