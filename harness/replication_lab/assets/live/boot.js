// Load the page again if a file of it did not arrive. Browsers abort requests when an interface of the machine appears
// or goes, and each container has one: a lab that starts beside this one would leave half a page.

const KEY = "lab-live-reloads";
const MOST = 8;
const PAUSE_MS = 400;

addEventListener("error", ({ target }) => {
  const tries = Number(sessionStorage.getItem(KEY));
  if (!(target instanceof HTMLScriptElement || target instanceof HTMLLinkElement) || tries >= MOST) return;
  sessionStorage.setItem(KEY, String(tries + 1));
  setTimeout(() => location.reload(), PAUSE_MS);
}, true);

addEventListener("load", () => {
  // The last script has run if the page was filled.
  if (document.querySelector("#charts")?.firstChild) sessionStorage.removeItem(KEY);
});
