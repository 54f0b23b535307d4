// Where the focus stood in what was replaced, it stands in the new: a screen reader is never sent to the top.
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
