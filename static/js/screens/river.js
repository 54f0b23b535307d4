// Whole texts below each other: marks entries as read when they are scrolled past, if the user wants that. Only the
// user's scrolling counts, never layout changes, restored positions or scrolling by scripts.
import * as list from "../list.js";
import * as rows from "../rows.js";

const REST = 1000; // the user's scrolling has ended
const KEYS = ["ArrowDown", "ArrowUp", "PageDown", "PageUp", "Home", "End", " "];
let box = null;
let seen = 0; // rows above the edge at the last look

function touched(event) {
  const pane = event.target.closest?.(".pane-list");
  if (!pane || (event.type === "keydown" && !KEYS.includes(event.key))) return;
  if (event.type !== "pointerdown" || event.target === pane) list.hand();
}

// Returns the number of rows that have left the pane at its upper edge.
function passed(all) {
  const pane = list.pane();
  const edge = pane.getBoundingClientRect().top + pane.querySelector(".bar").offsetHeight;
  const shown = all.filter((row) => row.isConnected);
  let [low, high] = [0, shown.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (shown[middle].getBoundingClientRect().bottom <= edge + 1) low = middle + 1;
    else high = middle;
  }
  return low < shown.length ? all.indexOf(shown[low]) : all.indexOf(shown.at(-1)) + 1; // none: 0
}

// Starts watching from the current position.
function begin() {
  box = document.getElementById("rows");
  seen = box ? passed(list.all()) : 0;
}

function scrolled(event) {
  const pane = list.pane();
  if (event.target !== pane || pane.dataset.view !== "expanded" || !document.querySelector(".reader").dataset.scroll) return;
  const all = list.all();
  const now = passed(all);
  if (document.getElementById("rows") !== box) begin();
  if (performance.now() - list.moved() < REST) {
    list.hand();
    // All rows between two looks, however fast they were scrolled past.
    for (const row of all.slice(seen, now)) if (!("kept" in row.dataset)) rows.setRead(row, true);
  }
  seen = now;
}

// The actions of a row are about that row, which stays where it is.
function chose(event) {
  const row = event.target.closest?.(".acts")?.closest(".row");
  if (!row || row === rows.current()) return;
  rows.current()?.removeAttribute("aria-current");
  row.setAttribute("aria-current", "true");
}

document.addEventListener("click", chose, true);
for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"]) addEventListener(kind, touched, { passive: true });
document.addEventListener("htmx:after:swap", () => document.getElementById("rows") === box || begin());
begin();
document.addEventListener("scroll", scrolled, { capture: true, passive: true });
