// Whole texts below each other: what is scrolled past becomes read, if one wants that. Only what a hand
// moved counts, never a layout, a restored place or a step of ours.
import * as list from "../list.js";
import * as rows from "../rows.js";

const REST = 1000; // a hand's move is over
const KEYS = ["ArrowDown", "ArrowUp", "PageDown", "PageUp", "Home", "End", " "];
let box = null;
let seen = 0; // rows above the edge when it was last looked

function touched(event) {
  const pane = event.target.closest?.(".pane-list");
  if (!pane || (event.type === "keydown" && !KEYS.includes(event.key))) return;
  if (event.type !== "pointerdown" || event.target === pane) list.hand();
}

// How many rows have left the pane by its upper edge.
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

// From here on it is looked what passes.
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
    // Whatever lies between two looks, however fast it went by.
    for (const row of all.slice(seen, now)) if (!("kept" in row.dataset)) rows.setRead(row, true);
  }
  seen = now;
}

for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"]) addEventListener(kind, touched, { passive: true });
document.addEventListener("htmx:after:swap", () => document.getElementById("rows") === box || begin());
begin();
document.addEventListener("scroll", scrolled, { capture: true, passive: true });
