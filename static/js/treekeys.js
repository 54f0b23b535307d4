// Arrow keys in the tree, which Tab reaches as one stop. Loads when the pointer or focus gets near the tree.
import { all } from "./reader.js";
import { isolate } from "./names.js";
import { say } from "./toast.js";
import * as menu from "./treemenu.js";
import * as view from "./treeview.js";
import { t } from "./words.js";

const PAUSE = 1000;
const HELD = 500;
const SLACK = 10;
// While someone moves with the arrow keys, letters find names; elsewhere they are shortcuts.
let moving = false;
let typed = "";
let timer = 0;

const isFolder = (item) => item?.classList.contains("folder");
const itemOf = (link) => (view.root()?.contains(link) ? link.closest("li") : null);
const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
const nameOf = (link) => plain(link.querySelector("span").textContent);

function feeds(list) {
  return [...list.children].flatMap((item) => {
    if (view.isHidden(item)) return [];
    const box = isFolder(item) && view.boxOf(item);
    return [view.linkOf(item), ...(box?.open ? feeds(view.listOf(item)) : [])];
  });
}

// Returns the links that one can move to, drawn or not.
export function order() {
  const others = view.links("a[href]").filter((link) => !view.root()?.contains(link) && link.checkVisibility());
  return [...others, ...(view.root() ? feeds(view.root()) : [])];
}

export function focused() {
  const link = document.activeElement?.closest(".tree a[href]:not(.menu a)");
  const item = link && view.keptOf(link);
  return item ? view.linkOf(item) : link;
}

export function step(by, from = focused()) {
  const links = order();
  const at = links.indexOf(from);
  const next = links[at < 0 ? (by > 0 ? 0 : links.length - 1) : at + by];
  if (next) view.focus(next);
}

function inside(link) {
  const item = itemOf(link);
  if (!isFolder(item)) return;
  if (!view.boxOf(item).open) view.fold(true, item);
  else if (view.listOf(item).firstElementChild) step(1, link);
}

function outside(link) {
  const item = itemOf(link);
  const home = item?.parentElement.closest(".folder");
  if (isFolder(item) && view.boxOf(item).open) view.fold(false, item);
  else if (home) view.focus(view.linkOf(home));
}

function expand(link) {
  const line = itemOf(link)?.parentElement.children;
  if (line) view.fold(true, ...[...line].filter(isFolder));
}

// The same letter again goes on to the next name with it.
function find(link, letter) {
  clearTimeout(timer);
  timer = setTimeout(() => (typed = ""), PAUSE);
  typed += plain(letter);
  const word = [...typed].every((one) => one === typed[0]) ? typed[0] : typed;
  const links = order();
  const from = links.indexOf(link) + (word.length === 1 ? 1 : 0);
  const found = [...links.slice(from), ...links.slice(0, from)].find((one) => nameOf(one).startsWith(word));
  if (found) view.focus(found);
  else say(t("No name here starts with “{word}”", { word: isolate(typed) }));
}

const ends = (at) => view.focus(order().at(at));

function act(key, link) {
  const forward = getComputedStyle(document.documentElement).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
  if (key === "ArrowDown") step(1, link);
  else if (key === "ArrowUp") step(-1, link);
  else if (key === "ArrowRight" || key === "ArrowLeft") (key === forward ? inside : outside)(link);
  else if (key === "Home") ends(0);
  else if (key === "End") ends(-1);
  else return false;
  moving = true;
  typed = "";
}

export async function press(event) {
  const link = focused();
  if (!link || event.target.closest(".menu") || event.ctrlKey || event.metaKey || event.altKey) return;
  const { key } = event;
  const item = itemOf(link);
  if (item && (key === "ContextMenu" || (key === "F10" && event.shiftKey))) menu.open(item);
  else if (item && key === "*") expand(link);
  else if (key === "Enter" || key === "Escape") return stop();
  else if (moving && key.length === 1 && key !== " ") find(link, key);
  else if (event.shiftKey || act(key, link) === false) return;
  event.preventDefault();
  event.stopPropagation();
}

function stop() {
  moving = false;
  typed = "";
}

// A long touch opens the menu of a line: not every browser sends an event for it.
function holding(place) {
  let wait = 0, held = false, start = null;
  const end = () => clearTimeout(wait);
  place.addEventListener("pointerdown", (event) => {
    const item = event.pointerType === "touch" && !event.target.closest(".menu") && view.keptOf(event.target);
    end();
    held = false;
    start = event;
    if (item) wait = setTimeout(() => ((held = true), menu.open(item)), HELD);
  });
  place.addEventListener("pointermove", (event) => {
    if (start && Math.hypot(event.clientX - start.clientX, event.clientY - start.clientY) > SLACK) end();
  });
  for (const kind of ["pointerup", "pointercancel"]) place.addEventListener(kind, end);
  // The touch that opened the menu doesn't open the feed as well.
  place.addEventListener("click", (event) => {
    if (!held || event.target.closest(".menu")) return;
    held = false;
    event.preventDefault();
    event.stopPropagation();
  }, true);
}

export function start(place) {
  place.addEventListener("keydown", press);
  place.addEventListener("pointerdown", stop);
  place.addEventListener("focusout", (event) => place.contains(event.relatedTarget) || stop());
  holding(place);
  all();
}
