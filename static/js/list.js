// The items of the list. At most 500 are in the page; distant ones are kept in memory, and a gap of the same height
// replaces them, so that neither scroll position nor focus jumps.
import { say } from "./toast.js";
import { t, tn } from "./words.js";

const MOST = 500;
// Distance from the edge of the pane, pixels.
const NEAR = 1500;
// Items restored beyond that distance.
const SPARE = 50;
const heights = new WeakMap();
const gaps = [document.createElement("li"), document.createElement("li")];
let box = null;
let items = [];
let from = 0;
let to = 0;
let coming = null;
let failed = null;

export const pane = () => document.querySelector(".pane-list");

// Adopts changes to the page: more items at the end, or another list.
function known() {
  const now = document.getElementById("rows");
  const shown = now ? [...now.children].filter((item) => !gaps.includes(item)) : [];
  if (now === box) items.splice(from, to - from, ...shown);
  else [box, items, from] = [now, shown, 0];
  to = from + shown.length;
  return items;
}

export const all = () => known().map((item) => item.firstElementChild).filter((row) => row?.matches(".row"));
export const byId = (id) => all().find((row) => row.dataset.id === id);

const sum = (part) => part.reduce((height, item) => height + (heights.get(item) ?? 0), 0);

// Of items beside each other, the first one has the height of all, so that they are never torn apart.
function measure() {
  let head, start, end = -1;
  for (const item of items.slice(from, to)) {
    const top = item.offsetTop;
    if (top < end) heights.set(item, 0);
    else {
      if (head) heights.set(head, top - start);
      [head, start] = [item, top];
    }
    end = Math.max(end, top + item.offsetHeight);
  }
  if (head) heights.set(head, end - start);
}

function show(first, last) {
  measure();
  while (first > 0 && heights.get(items[first]) === 0) first--;
  if (!gaps[0].isConnected || gaps[0].parentNode !== box) box.prepend(gaps[0]), box.append(gaps[1]);
  const stays = items.slice(Math.max(first, from), Math.min(last, to));
  const away = items.slice(from, to).filter((item) => !stays.includes(item));
  if (away.some((item) => item.contains(document.activeElement))) pane().focus({ preventScroll: true });
  for (const item of away) item.remove();
  gaps[0].after(...items.slice(first, stays.length ? from : last));
  if (stays.length) gaps[1].before(...items.slice(to, last));
  [from, to] = [first, last];
  gaps[0].style.blockSize = `${sum(items.slice(0, from))}px`;
  gaps[1].style.blockSize = `${sum(items.slice(to))}px`;
}

export function reveal(row) {
  if (row.isConnected) return;
  const at = items.indexOf(row.parentNode);
  show(Math.max(0, at - MOST / 2), Math.min(items.length, at + MOST / 2));
}

// Restores items near the pane, removes items far away on the other side.
function follow() {
  const edges = pane().getBoundingClientRect();
  if (known().length > MOST && to - from > MOST) show(to - MOST, to);
  let [first, last] = [from, to];
  let room = from && gaps[0].getBoundingClientRect().bottom - edges.top + NEAR;
  if (room > 0) {
    while (first > 0 && room > 0) room -= heights.get(items[--first]);
    first = Math.max(0, first - SPARE);
    return show(first, Math.min(items.length, first + MOST));
  }
  room = to < items.length && edges.bottom + NEAR - gaps[1].getBoundingClientRect().top;
  if (room > 0) {
    while (last < items.length && room > 0) room -= heights.get(items[last++]);
    last = Math.min(items.length, last + SPARE);
    show(Math.max(0, last - MOST), last);
  }
}

// Loads the next rows, one request at a time; false: there are none.
export function more() {
  coming ??= next().finally(() => (coming = null));
  return coming;
}

async function next() {
  const before = all().length;
  const here = box;
  if (to < items.length) show(Math.max(0, items.length - MOST), items.length);
  const link = document.querySelector("#more a");
  // The last item was requested; show the visible items again.
  if (!link) return follow(), false;
  const focused = document.activeElement === link;
  link.setAttribute("aria-busy", "true");
  const place = link.parentElement;
  await htmx.ajax("GET", link.getAttribute("href"), { source: place, target: "#more", swap: "outerHTML" }).catch(() => {});
  link.removeAttribute("aria-busy");
  if (link.isConnected) return unloaded(link);
  // Another list was loaded first.
  if (document.getElementById("rows") !== here) return false;
  const rows = all();
  announce(rows.length - before, Number(box.dataset.total) - rows.length);
  if (focused) rows[before]?.querySelector("a").focus({ preventScroll: true });
  follow();
  return rows.length > before;
}

function announce(n, left) {
  if (left > 0) say(tn("{n} more loaded, {left} left", "{n} more loaded, {left} left", n, { left }));
  else say(tn("{n} more loaded", "{n} more loaded", n));
}

function unloaded(link) {
  failed = link;
  link.textContent = t("Couldn't load more. Retry");
  return false;
}

// Whether the link to more rows is within this distance below the pane, and the user wants them by themselves.
function wants(distance) {
  const link = document.querySelector("#more a");
  const auto = document.querySelector(".reader").dataset.auto;
  return auto && link && link !== failed && link.getBoundingClientRect().top - pane().getBoundingClientRect().bottom < distance;
}

function scrolled(event) {
  if (event.target !== pane()) return;
  follow();
  if (wants(NEAR)) more();
}

// Loads rows until they fill the pane: nothing can be scrolled before that.
export async function fill() {
  while (pane()?.clientHeight && wants(0) && (await more()));
}

// Time of the user's last scroll; scrolling by scripts doesn't count.
let moving = -Infinity;
export const moved = () => moving;
export const hand = () => (moving = performance.now());
export const still = () => (moving = -Infinity);

export function start() {
  // An error page of the server must not replace the rows.
  document.addEventListener("htmx:after:request", (event) => {
    if (event.target.id === "more" && event.detail.ctx.response.status >= 400) event.preventDefault();
  });
  for (const gap of gaps) gap.className = "gap", gap.setAttribute("aria-hidden", "true");
  document.addEventListener("scroll", scrolled, { capture: true, passive: true });
  addEventListener("resize", fill);
  fill();
}
