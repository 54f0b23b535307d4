// Restores the focus in replaced content, so that screen readers aren't sent to the top of the page.
let last = null;
let pane = "";

const goal = () =>
  (pane === "article" && document.getElementById("entry-title")) ||
  document.querySelector("#rows .row[aria-current] a") ||
  document.querySelector("#stream h1");

function restore() {
  if (!pane || last.isConnected || document.activeElement !== document.body) return;
  const place = goal();
  if (place && !place.matches("a")) place.tabIndex = -1;
  place?.focus({ preventScroll: true });
}

export function start() {
  document.addEventListener("focusin", ({ target }) => {
    last = target;
    pane = target.closest("#article, #stream")?.id ?? "";
  });
  document.addEventListener("htmx:after:swap", restore);
}
