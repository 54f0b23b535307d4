// The lines of the tree. All feeds are kept outside of the document; the document has those near the visible part.
// Other modules read and change the kept ones, and every change is drawn before the next frame.
const KEY = "eventr.closed-folders";
const OVER = 320;
// From a kept line to its shown one and back, and what a shown line was drawn from.
const drawn = new WeakMap(), meant = new WeakMap(), marks = new WeakMap();
const serial = new XMLSerializer();
const watcher = new MutationObserver(draw);
const sizes = new ResizeObserver(draw);
let kept = null, shown = null, active = null;
let line = 32, hides = null;

export const root = () => kept;
// Links of all streams, tags, searches, folders and feeds, in the order of the tree.
export const links = (what = "a") =>
  [...document.querySelectorAll(`.tree:not(#feeds) ${what}`), ...(kept?.querySelectorAll(what) ?? [])];
const current = () => links("a[aria-current]").at(-1) ?? links()[0];
export const keptOf = (node) => meant.get(node?.closest?.("#feeds li"));
export const shownOf = (item) => drawn.get(item) ?? item;
export const linkOf = (item) => item.querySelector(":scope > a");
export const boxOf = (item) => item.querySelector(":scope > details:not(.menu)");
export const listOf = (item) => boxOf(item).children[1];
export const isHidden = (item) => hides && !item.matches(":has(.has, .stay, [aria-current]), .dragged");

function size(item) {
  if (isHidden(item)) return 0;
  const box = boxOf(item);
  return box?.open ? [...listOf(item).children].reduce((sum, one) => sum + size(one), line) : line;
}

function make(item) {
  const [own, box] = [item.cloneNode(), boxOf(item)];
  own.append(linkOf(item).cloneNode(true));
  if (box) own.append(box.cloneNode()), own.lastChild.append(box.firstChild.cloneNode(true), listOf(item).cloneNode());
  drawn.set(item, own);
  meant.set(own, item);
  return own;
}

// Shows a line's current state in its old nodes, so that they keep the focus and their icons.
function paint(item) {
  const own = drawn.get(item) ?? make(item);
  const [from, to, box] = [linkOf(item), linkOf(own), boxOf(item)];
  to.tabIndex = from === active ? 0 : -1;
  const within = box && !box.open && item.querySelector("details [aria-current]") ? " within" : "";
  const mark = item.className + within + serial.serializeToString(from) + box?.open;
  if (marks.get(own) === mark) return own;
  marks.set(own, mark);
  own.className = item.className + within;
  for (const name of ["class", "data-unread", "aria-current"]) {
    const value = from.getAttribute(name);
    value === null ? to.removeAttribute(name) : to.setAttribute(name, value);
  }
  // What hasn't changed stays: an icon that is loaded, a name that is dragged.
  if (![...from.childNodes].every((node, at) => node.isEqualNode(to.childNodes[at])) || to.childNodes.length !== from.childNodes.length) {
    const icon = to.firstChild;
    to.replaceChildren(...from.cloneNode(true).childNodes);
    if (icon.isEqualNode(to.firstChild)) to.firstChild.replaceWith(icon);
  }
  if (!box) return own;
  boxOf(own).open = box.open;
  boxOf(own).firstChild.tabIndex = -1;
  return own;
}

// Draws the lines of a list between two heights, and its last one. Their margins keep the places of the others: the
// list itself has an id, and htmx would copy its style, which the policy of the page forbids.
function lay(list, place, at, from, to, pins) {
  let skipped = 0;
  const wanted = [];
  const all = [...list.children];
  const last = all.findLast(size);
  for (const item of all) {
    const height = size(item);
    if (height && (item === last || (at + height > from && at < to) || pins.some((pin) => item.contains(pin)))) {
      const own = paint(item);
      own.style.marginBlockStart = skipped ? `${skipped}px` : "";
      skipped = 0;
      wanted.push([item, own, at]);
    } else skipped += height;
    at += height;
  }
  const stay = new Set(wanted.map(([, own]) => own));
  for (const old of [...place.children]) if (!stay.has(old)) old.remove();
  let next = place.firstChild;
  for (const [item, own, top] of wanted) {
    if (own === next) next = next.nextSibling;
    else place.insertBefore(own, next);
    // Screen readers count the lines that aren't drawn, too.
    own.ariaSetSize = all.length;
    own.ariaPosInSet = all.indexOf(item) + 1;
    const box = boxOf(item);
    if (box) box.open ? lay(listOf(item), listOf(own), top + line, from, to, pins) : listOf(own).replaceChildren();
  }
}

function scroller() {
  let place = shown.parentElement;
  while (place !== document.documentElement && !/auto|scroll/.test(getComputedStyle(place).overflowY)) place = place.parentElement;
  return place;
}

export function draw() {
  if (!shown?.isConnected) return;
  hides = document.querySelector(".hide-read");
  if (!active?.isConnected && !kept.contains(active)) active = current();
  for (const link of document.querySelectorAll(".tree:not(#feeds) a")) link.tabIndex = link === active ? 0 : -1;
  const pane = scroller();
  const from = Math.max(0, pane.getBoundingClientRect().top) - shown.getBoundingClientRect().top;
  const pins = [active, keptOf(document.activeElement), ...kept.querySelectorAll(".dragged")].filter(Boolean);
  lay(kept, shown, 0, from - OVER, from + (pane.clientHeight || innerHeight) + OVER, pins);
  const tall = shown.querySelector("a")?.offsetHeight;
  if (tall && tall !== line) (line = tall), draw();
}

// The line that stands for one: the outermost closed folder around it.
function outer(item) {
  let found = item;
  for (let one = item?.parentElement?.closest("li"); one; one = one.parentElement.closest("li")) if (!boxOf(one).open) found = one;
  return found;
}

// Makes a link the one that Tab reaches, and shows it.
export function reveal(link) {
  const item = kept?.contains(link) ? outer(link.closest("li")) : null;
  active = item ? linkOf(item) : link;
  draw();
  const own = item ? linkOf(shownOf(item)) : link;
  if (own?.checkVisibility()) {
    own.scrollIntoView({ block: "nearest" });
    // The event of this scrolling comes a frame later, in which the lines around would be missing.
    draw();
  }
  return own;
}

export const revealCurrent = () => reveal(current());
export const focus = (link) => reveal(link)?.focus({ preventScroll: true });

const closed = () => new Set(JSON.parse(localStorage.getItem(KEY) ?? "[]"));

// Opens or closes folders, and remembers it.
export function fold(open, ...items) {
  const all = closed();
  for (const item of items) {
    boxOf(item).open = open;
    all[open ? "delete" : "add"](item.dataset.id);
    // The focus never stays in a closed folder.
    if (!open && boxOf(item).contains(active)) (shown.contains(document.activeElement) ? focus : reveal)(linkOf(item));
  }
  localStorage.setItem(KEY, JSON.stringify([...all]));
  draw();
}

// Takes over the feeds that the server has sent.
export function adopt() {
  const found = document.getElementById("feeds");
  if (found && found !== shown) {
    shown = found;
    kept = found.cloneNode();
    kept.append(...found.childNodes);
    const all = closed();
    for (const item of kept.querySelectorAll(".folder")) boxOf(item).open = !all.has(item.dataset.id);
    watcher.disconnect();
    watcher.observe(kept, { subtree: true, childList: true, attributes: true, characterData: true });
    sizes.disconnect();
    sizes.observe(scroller());
  }
  draw();
}

function clicked(event) {
  const item = event.target.closest("#feeds summary") && !event.target.closest(".menu") && keptOf(event.target);
  if (!item) return;
  event.preventDefault();
  fold(!boxOf(item).open, item);
}

export function start() {
  adopt();
  if (!kept) return;
  revealCurrent();
  document.addEventListener("click", clicked);
  document.addEventListener("scroll", ({ target }) => target.contains(shown) && draw(), { capture: true, passive: true });
  document.addEventListener("htmx:after:swap", adopt);
  document.addEventListener("focusin", ({ target }) => {
    const link = target.closest(".tree a:not(.menu a)");
    if (!link) return;
    active = keptOf(link) ? linkOf(keptOf(link)) : link;
    draw();
  });
}
