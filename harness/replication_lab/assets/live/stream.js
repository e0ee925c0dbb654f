// The server's events. The browser connects again by itself; after `gone` it must not.

const SILENT_MS = 3500;

/** Call `on.hello`, `on.state` and `on.gone` with the data, `on.connection` with "live", "silent", "lost", "refused". */
export function listen(on) {
  const source = new EventSource("/events");
  let last = performance.now();
  let ended = false;
  const told = (name) => (event) => {
    last = performance.now();
    on[name](JSON.parse(event.data));
    if (!ended) on.connection("live");
  };
  source.addEventListener("hello", told("hello"));
  source.addEventListener("state", told("state"));
  source.addEventListener("gone", (event) => {
    ended = true;
    source.close();
    on.gone(JSON.parse(event.data));
  });
  source.addEventListener("error", () => {
    if (!ended) on.connection(source.readyState === EventSource.CLOSED ? "refused" : "lost");
  });
  setInterval(() => {
    if (!ended && source.readyState === EventSource.OPEN && performance.now() - last > SILENT_MS) on.connection("silent");
  }, 1000);
}
