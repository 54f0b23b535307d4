// The tree beside the page: on wide screens whole or a rail of icons, which this device remembers; on narrow ones a
// drawer, opened by a button, a key or a swipe from the edge.
import { draw, links, revealCurrent } from "./treeview.js";

const root = document.documentElement;
const narrow = matchMedia("(max-width: 899px)");
const side = () => document.getElementById("tree");
const scrim = () => document.getElementById("scrim");
// Pixels: where a swipe begins, and how far it goes.
const [EDGE, FAR] = [24, 48];
let opener = null;

const isOpen = () => root.classList.contains("drawer");
const around = () => document.querySelectorAll(".skip, .main, .beside, .tabs, .playbar");

function set(open) {
  root.classList.toggle("drawer", open);
  scrim().hidden = !open;
  for (const part of around()) part.inert = open;
}

function open() {
  opener = document.activeElement;
  set(true);
  draw();
  const place = revealCurrent();
  (place?.checkVisibility() ? place : side().querySelector("a")).focus({ preventScroll: true });
}

// Returns the focus to where it was, unless a link takes it elsewhere.
export function close(back = true) {
  if (!isOpen()) return false;
  set(false);
  if (back && opener?.checkVisibility()) opener.focus({ preventScroll: true });
  opener = null;
}

// A rail has no names to see, so the pointer shows them.
function entitle() {
  const rail = root.dataset.side === "rail";
  for (const link of links("a[href]:not([data-feed], [data-folder])")) link.title = rail ? link.querySelector("span")?.textContent.trim() ?? "" : "";
}

function fold() {
  root.dataset.side = root.dataset.side === "rail" ? "full" : "rail";
  document.cookie = `side=${root.dataset.side}; path=/; max-age=34560000; samesite=lax${location.protocol === "https:" ? "; secure" : ""}`;
  entitle();
  draw();
}

export function toggle() {
  if (!narrow.matches) fold();
  else if (close() === false) open();
}

// Shows the tree with its names, for keys that move in it; false: there is none.
export function show() {
  if (!side()) return false;
  if (narrow.matches) isOpen() || open();
  else if (root.dataset.side === "rail") fold();
  return true;
}

// Inwards from the edge opens, outwards closes; upright movements scroll.
function swipes() {
  let start = null;
  const inward = (x) => (root.dir === "rtl" ? innerWidth - x : x);
  addEventListener("touchstart", ({ touches }) => {
    const [{ clientX, clientY }] = touches;
    start = narrow.matches && touches.length === 1 && (isOpen() || inward(clientX) < EDGE) ? [inward(clientX), clientY] : null;
  }, { passive: true });
  addEventListener("touchmove", ({ touches }) => {
    if (!start) return;
    const [{ clientX, clientY }] = touches;
    const [along, across] = [inward(clientX) - start[0], Math.abs(clientY - start[1])];
    if (across > FAR) start = null;
    else if (Math.abs(along) > FAR && Math.abs(along) > 2 * across) {
      start = null;
      if (along > 0 !== isOpen()) along > 0 ? open() : close();
    }
  }, { passive: true });
}

// Tags and saved searches: folded or not as this device remembers, at first by the width of the screen.
function foldLabels() {
  for (const one of side().querySelectorAll("[data-fold]")) one.open = one.querySelector("[aria-current]") || (localStorage[`eventr.${one.dataset.fold}`] ?? `${!narrow.matches}`) === "true";
}

function folded({ target }) {
  const one = target.closest(".fold summary")?.parentElement;
  if (one) localStorage[`eventr.${one.dataset.fold}`] = !one.open;
}

export function start() {
  entitle();
  foldLabels();
  document.addEventListener("htmx:after:swap", foldLabels);
  side().addEventListener("click", folded);
  side().addEventListener("toggle", draw, true);
  swipes();
  scrim().addEventListener("click", () => close());
  side().addEventListener("click", ({ target }) => target.closest("a[href]") && !target.closest(".menu") && close(false));
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !isOpen() || event.target.closest?.(".menu[open], dialog")) return;
    event.preventDefault();
    event.stopPropagation();
    close();
  }, true);
  narrow.addEventListener("change", () => close(false));
  // Without scripts, this address shows the tree alone.
  const reader = document.querySelector('.reader[data-pane="tree"]');
  if (!reader) return;
  reader.dataset.pane = "list";
  if (narrow.matches) open();
}
