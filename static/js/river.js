// Whole texts below each other: what is scrolled past becomes read, if one wants that. Only what a hand
// moved counts, never a layout, a restored place or a step of ours.
import * as list from "./list.js";
import * as rows from "./rows.js";

const REST = 1000; // a hand's move is over
const KEYS = ["ArrowDown", "ArrowUp", "PageDown", "PageUp", "Home", "End", " "];
let box = null;
let seen = 0; // rows above the edge when it was last looked
let moving = 0;

export function hand() {
  moving = performance.now();
}

export function still() {
  moving = 0;
}

function touched(event) {
  const pane = event.target.closest?.(".pane-list");
  if (!pane || (event.type === "keydown" && !KEYS.includes(event.key))) return;
  if (event.type !== "pointerdown" || event.target === pane) hand();
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
  return low < shown.length ? all.indexOf(shown[low]) : all.indexOf(shown.at(-1)) + 1;
}

function scrolled(event) {
  const pane = list.pane();
  if (event.target !== pane || pane.dataset.view !== "expanded" || !document.querySelector(".reader").dataset.scroll) return;
  const all = list.all();
  const now = passed(all);
  const place = document.getElementById("rows");
  if (place !== box) [box, seen] = [place, moving ? 0 : now];
  const real = moving && performance.now() - moving < REST;
  if (real) {
    hand();
    // Whatever lies between two looks, however fast it went by.
    for (const row of all.slice(seen, now)) if (!row.dataset.kept) rows.setRead(row, true);
  }
  seen = now;
}

// A picture of unknown size keeps its box while it is looked at, and gets its own size out of sight.
function loaded({ target }) {
  if (!target.matches?.(".prose img:not([width][height])")) return;
  const edges = target.closest(".pane")?.getBoundingClientRect();
  const { top, bottom } = target.getBoundingClientRect();
  if (!edges || top > edges.bottom || bottom < edges.top || target.naturalWidth < 100) target.classList.add("sized");
}

export function start() {
  for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"]) addEventListener(kind, touched, { passive: true });
  document.addEventListener("scroll", scrolled, { capture: true, passive: true });
  for (const kind of ["load", "error"]) document.addEventListener(kind, loaded, true);
}
